//! A bucket of an object store with the interface of S3, whose failures a test chooses.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The name of the bucket.
const NAME: &str = "blobs";

/// A time in the form of HTTP, which all objects have.
const TIME: &str = "Sun, 29 Nov 2026 12:00:00 GMT";

/// The way in which a bucket fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketFault {
    /// It answers all requests with this status and this code.
    Answers(u16, &'static str),
    /// It answers writes with this status and this code, and reads work.
    AnswersWrites(u16, &'static str),
    /// Nothing listens at its address.
    Refuses,
    /// It closes each connection after the request.
    Resets,
    /// It stores the object, and closes the connection.
    LosesAnswers,
    /// It never answers.
    Hangs,
    /// It answers something that is not HTTP.
    Garbage,
}

/// A running bucket. It stops when it is dropped.
pub struct BucketServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    fault: Option<BucketFault>,
    failures: usize,
    objects: BTreeMap<String, Vec<u8>>,
    /// The connections that are not answered.
    hanging: Vec<TcpStream>,
    is_over: bool,
}

impl BucketServer {
    /// Starts a bucket.
    ///
    /// # Panics
    /// No port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let thread = Some(serve(listener, Arc::clone(&state)));
        Self { address, state, thread }
    }

    /// Returns the URL of the bucket, as the setting of a blob store.
    #[must_use]
    pub fn url(&self) -> String {
        format!("s3://{NAME}")
    }

    /// Returns the variables with which a program finds and uses the bucket.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "eu-north-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ]
    }

    /// Makes the bucket fail from now on.
    ///
    /// # Panics
    /// The bucket fails already.
    pub fn fail(&mut self, fault: BucketFault) {
        {
            let mut state = lock(&self.state);
            assert_eq!(state.fault, None, "the bucket fails already");
            (state.fault, state.failures) = (Some(fault), 0);
        }
        if fault == BucketFault::Refuses {
            self.stop();
        }
    }

    /// Makes the bucket work again. Requests that were not answered fail.
    ///
    /// # Panics
    /// The port of the bucket is not free any more.
    pub fn work(&mut self) {
        {
            let mut state = lock(&self.state);
            state.fault = None;
            state.hanging.clear();
        }
        if self.thread.is_none() {
            lock(&self.state).is_over = false;
            self.thread = Some(serve(TcpListener::bind(self.address).unwrap(), Arc::clone(&self.state)));
        }
    }

    /// Returns the number of requests that have failed since [`BucketServer::fail`]. Refused ones are not counted.
    #[must_use]
    pub fn failures(&self) -> usize {
        lock(&self.state).failures
    }

    /// Returns the keys of the objects below a prefix.
    #[must_use]
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        lock(&self.state).objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    fn stop(&mut self) {
        lock(&self.state).is_over = true;
        // Wakes the thread.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for BucketServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: TcpListener, state: Arc<Mutex<State>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if lock(&state).is_over {
                return;
            }
            let state = Arc::clone(&state);
            std::thread::spawn(move || answer(stream, &state));
        }
    })
}

/// A request to the bucket.
struct BucketRequest {
    method: String,
    target: String,
    body: Vec<u8>,
}

impl BucketRequest {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { method, target, body })
    }

    fn writes(&self) -> bool {
        ["PUT", "POST", "DELETE"].contains(&self.method.as_str())
    }

    /// Returns the key of the object; empty for the bucket itself.
    fn key(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        path.trim_start_matches('/').strip_prefix(NAME).unwrap_or_default().trim_start_matches('/').to_owned()
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?')?.1;
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(known, _)| *known == name).map(|(_, value)| value.replace("%2F", "/")).next()
    }
}

/// Answers the requests of one connection.
fn answer(mut stream: TcpStream, state: &Mutex<State>) {
    while let Some(call) = BucketRequest::read(&stream) {
        let mut state = lock(state);
        let fault = state.fault.filter(|fault| match fault {
            BucketFault::AnswersWrites(..) | BucketFault::LosesAnswers => call.writes(),
            _ => true,
        });
        state.failures += usize::from(fault.is_some());
        let done = match fault {
            None => stream.write_all(&respond(&mut state, &call)),
            Some(BucketFault::Answers(status, code) | BucketFault::AnswersWrites(status, code)) => {
                stream.write_all(&response(status, "", format!("<Error><Code>{code}</Code></Error>").as_bytes()))
            }
            Some(BucketFault::Hangs) => return state.hanging.push(stream),
            Some(BucketFault::Garbage) => return drop(stream.write_all(b"\0\x01 this is no HTTP\r\n\r\n")),
            Some(BucketFault::LosesAnswers) => {
                respond(&mut state, &call);
                return;
            }
            Some(BucketFault::Resets | BucketFault::Refuses) => return,
        };
        if done.is_err() {
            return;
        }
    }
}

fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\nETag: \"1\"\r\nLast-Modified: {TIME}\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn respond(state: &mut State, call: &BucketRequest) -> Vec<u8> {
    let (key, nothing) = (call.key(), b"".as_slice());
    match call.method.as_str() {
        "PUT" => {
            state.objects.insert(key, call.body.clone());
            response(200, "", nothing)
        }
        "DELETE" => {
            state.objects.remove(&key);
            response(204, "", nothing)
        }
        "POST" => {
            let text = String::from_utf8_lossy(&call.body).into_owned();
            for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split('<').next()) {
                state.objects.remove(key);
            }
            response(200, "", b"<DeleteResult></DeleteResult>")
        }
        "GET" if key.is_empty() => {
            let (prefix, after) = (call.parameter("prefix").unwrap_or_default(), call.parameter("start-after"));
            let is_listed = |key: &&String| key.starts_with(&prefix) && after.as_ref().is_none_or(|after| *key > after);
            let entry = |key: &String| {
                let bytes = state.objects[key].len();
                format!(
                    "<Contents><Key>{key}</Key><LastModified>2026-11-29T12:00:00.000Z</LastModified><ETag>1</ETag>\
                     <Size>{bytes}</Size></Contents>"
                )
            };
            let listed: String = state.objects.keys().filter(is_listed).map(entry).collect();
            response(200, "", format!("<ListBucketResult>{listed}</ListBucketResult>").as_bytes())
        }
        method => match state.objects.get(&key) {
            Some(content) if method == "HEAD" => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nLast-Modified: {TIME}\r\nContent-Length: {}\r\n\r\n",
                    content.len()
                );
                head.into_bytes()
            }
            Some(content) => response(200, "", content),
            None if method == "HEAD" => response(404, "", nothing),
            None => response(404, "", b"<Error><Code>NoSuchKey</Code></Error>"),
        },
    }
}
