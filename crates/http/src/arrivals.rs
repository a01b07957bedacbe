//! The memory for bodies that are arriving, with a share for each sender.
//!
//! Senders that send slowly, or that declare a large body and send none of it, must not keep others from being served.
//! Therefore memory counts only for bytes that have arrived. When there is none left, an unfinished body makes room: one
//! that has taken long, or else one of the sender that uses the most. A sender that uses its whole share makes room for
//! its own newer bodies. So a small body that arrives quickly, such as a signed webhook, always fits.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use journeyman_app::Holder;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::body::{broken_body, declared_length, too_large};
use crate::error::{ApiError, ErrorCode};

/// The maximum time for a body to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(30);

/// The time after which the body of an unknown sender must have arrived at [`LEAST_RATE`], and after which any body may be
/// ended to make room for others.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The minimum rate of the body of an unknown sender after [`GRACE`], in bytes per second.
const LEAST_RATE: u64 = 32 << 10;

/// The `Retry-After` of a refused body, in seconds.
const RETRY_SECONDS: u64 = 2;

/// The limits of a pool. Numbers for each sender are at most those for all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// The maximum number of bytes of all bodies.
    pub(crate) bytes: usize,
    /// The maximum number of bytes of the bodies of one sender.
    pub(crate) bytes_each: usize,
    /// The maximum number of bodies.
    pub(crate) bodies: usize,
    /// The maximum number of bodies of one sender.
    pub(crate) bodies_each: usize,
}

/// The bodies that are arriving.
pub(crate) struct Arrivals {
    shares: Shares,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    bytes: usize,
    /// The bodies in memory, in the order of their beginning.
    bodies: BTreeMap<u64, Arriving>,
    senders: HashMap<Holder, Share>,
}

struct Arriving {
    sender: Holder,
    bytes: usize,
    begun: Instant,
    /// Ends the reading of the body; `None` once the body is complete.
    end: Option<oneshot::Sender<()>>,
}

/// What a sender uses.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    bytes: usize,
    bodies: usize,
}

/// A body in memory. Dropping it frees its memory.
pub(crate) struct Arrival<'a> {
    arrivals: &'a Arrivals,
    id: u64,
}

impl Arrivals {
    pub(crate) fn new(shares: Shares) -> Self {
        Self { shares, table: Mutex::default() }
    }

    /// Reads the body of a request, up to `most` bytes. After `grace`, it must have arrived at [`LEAST_RATE`].
    ///
    /// # Errors
    /// The body is too large or too slow, it breaks off, or there is no room for it.
    pub(crate) async fn read(
        &self,
        request: Request,
        most: usize,
        sender: Holder,
        grace: Duration,
    ) -> Result<(Bytes, Arrival<'_>), ApiError> {
        // The length is checked before the body is read, so that a client that sent "Expect: 100-continue" gets the error
        // instead of a request for its body.
        if declared_length(request.headers()).is_some_and(|length| length > most) {
            return Err(too_large(most));
        }
        let (arrival, mut ended) = self.begin(sender)?;
        let begun = Instant::now();
        let mut body = Limited::new(request.into_body(), most);
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let earned = Duration::from_secs(bytes.len() as u64 / LEAST_RATE);
            let until = begun + (grace + earned).min(BODY_TIME);
            let frame = tokio::select! {
                biased;
                _ = &mut ended => return Err(overloaded()),
                frame = timeout_at(until, body.frame()) => frame.map_err(|_| too_slow(until - begun))?,
            };
            let Some(frame) = frame else { break };
            let Ok(piece) = frame.map_err(|error| broken_body(&*error, most))?.into_data() else { continue };
            arrival.grow(piece.len())?;
            if bytes.capacity() - bytes.len() < piece.len() {
                // A vector would double its memory.
                bytes.reserve_exact(piece.len().max(bytes.len() / 4));
            }
            bytes.extend_from_slice(&piece);
        }
        arrival.complete();
        Ok((bytes.into(), arrival))
    }

    /// Begins a body, and returns what tells that it must end.
    fn begin(&self, sender: Holder) -> Result<(Arrival<'_>, oneshot::Receiver<()>), ApiError> {
        let mut table = self.table();
        if table.share(sender).bodies >= self.shares.bodies_each && !table.end_own(sender, None) {
            return Err(own_share(&format!("{} bodies of requests", self.shares.bodies_each)));
        }
        let own = table.share(sender);
        let then = Share { bodies: own.bodies + 1, ..own };
        if table.bodies.len() >= self.shares.bodies && !table.make_room(then, None) {
            return Err(overloaded());
        }
        let (end, ended) = oneshot::channel();
        let id = table.next;
        table.next += 1;
        table.bodies.insert(id, Arriving { sender, bytes: 0, begun: Instant::now(), end: Some(end) });
        table.senders.entry(sender).or_default().bodies += 1;
        Ok((Arrival { arrivals: self, id }, ended))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn share(&self, sender: Holder) -> Share {
        self.senders.get(&sender).copied().unwrap_or_default()
    }

    /// Ends an unfinished body, other than `except`, for a sender that would then use `own`: the oldest one that has taken
    /// longer than [`GRACE`], or else the oldest one of the sender that uses the most, if that is not less than `own`. If
    /// bytes are needed, only bodies with bytes count. Returns `false` if there is none.
    fn make_room(&mut self, own: Share, except: Option<u64>) -> bool {
        let needs_bytes = except.is_some();
        let unfinished = || {
            let counts = |body: &Arriving| body.end.is_some() && (body.bytes > 0 || !needs_bytes);
            self.bodies.iter().filter(move |(id, body)| Some(**id) != except && counts(body))
        };
        let slow = unfinished().find(|(_, body)| body.begun.elapsed() >= GRACE).map(|(id, _)| *id);
        let largest = || {
            let share = |body: &Arriving| {
                let share = self.share(body.sender);
                if needs_bytes { share.bytes } else { share.bodies }
            };
            let own = if needs_bytes { own.bytes } else { own.bodies };
            let shares = unfinished().map(|(id, body)| (share(body), *id));
            let most = shares.clone().map(|(share, _)| share).max().filter(|share| *share >= own)?;
            shares.filter(|(share, _)| *share == most).map(|(_, id)| id).min()
        };
        let Some(id) = slow.or_else(largest) else { return false };
        self.end(id);
        true
    }

    /// Ends the oldest unfinished body of a sender, other than `except`, to make room for a newer one of the same sender.
    /// Returns `false` if there is none.
    fn end_own(&mut self, sender: Holder, except: Option<u64>) -> bool {
        let counts = |body: &Arriving| body.end.is_some() && (body.bytes > 0 || except.is_none());
        let oldest =
            self.bodies.iter().find(|(id, body)| body.sender == sender && Some(**id) != except && counts(body));
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        self.end(id);
        true
    }

    fn end(&mut self, id: u64) {
        if let Some(end) = self.remove(id).and_then(|body| body.end) {
            // Its reader may have ended already.
            let _ = end.send(());
        }
    }

    fn remove(&mut self, id: u64) -> Option<Arriving> {
        let body = self.bodies.remove(&id)?;
        self.bytes -= body.bytes;
        if let Some(share) = self.senders.get_mut(&body.sender) {
            share.bytes -= body.bytes;
            share.bodies -= 1;
            if share.bodies == 0 {
                self.senders.remove(&body.sender);
            }
        }
        Some(body)
    }
}

impl Arrival<'_> {
    /// Counts more bytes.
    ///
    /// # Errors
    /// There is no room for them, or the body was ended to make room for others.
    pub(crate) fn grow(&self, more: usize) -> Result<(), ApiError> {
        let shares = self.arrivals.shares;
        let mut table = self.arrivals.table();
        let Some(sender) = table.bodies.get(&self.id).map(|body| body.sender) else { return Err(overloaded()) };
        while table.share(sender).bytes + more > shares.bytes_each {
            if table.end_own(sender, Some(self.id)) {
                continue;
            }
            return Err(own_share(&format!("{} MiB of bodies of requests", shares.bytes_each >> 20)));
        }
        while table.bytes + more > shares.bytes {
            let own = table.share(sender);
            let then = Share { bytes: own.bytes + more, ..own };
            if !table.make_room(then, Some(self.id)) {
                return Err(overloaded());
            }
        }
        table.bytes += more;
        if let Some(body) = table.bodies.get_mut(&self.id) {
            body.bytes += more;
        }
        if let Some(share) = table.senders.get_mut(&sender) {
            share.bytes += more;
        }
        Ok(())
    }

    /// Notes that the whole body has arrived, so that it does not make room for others any more.
    fn complete(&self) {
        if let Some(body) = self.arrivals.table().bodies.get_mut(&self.id) {
            body.end = None;
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.arrivals.table().remove(self.id);
    }
}

fn own_share(what: &str) -> ApiError {
    let text = format!("you send more than {what} at the same time; wait for the answers to earlier requests");
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::LimitReached, text)
        .with(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
}

fn overloaded() -> ApiError {
    tracing::warn!("a request was refused: the memory for request bodies is used up");
    ApiError::away(ErrorCode::Overloaded, "the server is overloaded; nothing was stored, try again")
}

fn too_slow(after: Duration) -> ApiError {
    let text = format!("the body did not arrive within {} s, or too slowly", after.as_secs());
    ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::BodyTimeout, text)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use axum::body::Body;
    use axum::response::IntoResponse as _;
    use futures::StreamExt as _;
    use futures::stream;

    use super::*;

    const SHARES: Shares = Shares { bytes: 100, bytes_each: 60, bodies: 4, bodies_each: 3 };

    fn sender(number: u8) -> Holder {
        Holder::Address(Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))))
    }

    fn status(error: ApiError) -> u16 {
        error.into_response().status().as_u16()
    }

    fn refused<T>(result: Result<T, ApiError>) -> u16 {
        result.err().map_or(0, status)
    }

    #[tokio::test]
    async fn a_sender_has_a_share_of_bytes_and_of_bodies() {
        let arrivals = Arrivals::new(SHARES);
        let (first, _) = arrivals.begin(sender(1)).unwrap();
        first.grow(60).unwrap();
        assert_eq!(refused(first.grow(1)), 429);
        let mut others = [arrivals.begin(sender(1)).unwrap(), arrivals.begin(sender(1)).unwrap()];
        others[0].0.grow(1).unwrap();
        assert_eq!(refused(first.grow(1)), 503, "it made room for a newer one of the same sender");
        let (first, _first_ended) = arrivals.begin(sender(1)).unwrap();
        first.complete();
        let newest = arrivals.begin(sender(1)).unwrap();
        assert!(others[0].1.try_recv().is_ok() && others[1].1.try_recv().is_err(), "the oldest makes room");
        for (other, _) in [&others[1], &newest] {
            other.complete();
        }
        assert_eq!(refused(arrivals.begin(sender(1))), 429, "complete bodies make no room");
        let (second, _) = arrivals.begin(sender(2)).unwrap();
        second.grow(40).unwrap();
        drop((first, others, newest, second));
        assert!(arrivals.table().senders.is_empty() && arrivals.table().bytes == 0);
    }

    #[tokio::test]
    async fn the_largest_sender_makes_room_for_smaller_ones_and_complete_bodies_stay() {
        let arrivals = Arrivals::new(SHARES);
        let (large, mut large_ended) = arrivals.begin(sender(1)).unwrap();
        large.grow(60).unwrap();
        let (complete, mut complete_ended) = arrivals.begin(sender(2)).unwrap();
        complete.grow(40).unwrap();
        complete.complete();
        let (small, _small_ended) = arrivals.begin(sender(3)).unwrap();
        small.grow(10).unwrap();
        assert!(large_ended.try_recv().is_ok() && complete_ended.try_recv().is_err());
        assert_eq!(refused(large.grow(1)), 503, "it was ended");
        assert_eq!(refused(small.grow(51)), 429, "its own share");
        let (other, _other_ended) = arrivals.begin(sender(4)).unwrap();
        other.grow(50).unwrap();
        assert_eq!(refused(other.grow(1)), 503, "nobody uses more than it does");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_take_long_make_room_first() {
        let arrivals = Arrivals::new(SHARES);
        let mut held: Vec<_> = (1..=4).map(|number| arrivals.begin(sender(number)).unwrap()).collect();
        held[3].0.grow(50).unwrap();
        let (fifth, _) = arrivals.begin(sender(5)).unwrap();
        assert!(held[0].1.try_recv().is_ok(), "of bodies that are as old, the first");
        drop(fifth);
        tokio::time::advance(GRACE).await;
        let (large, mut large_ended) = arrivals.begin(sender(6)).unwrap();
        large.grow(50).unwrap();
        let (small, _ended) = arrivals.begin(sender(7)).unwrap();
        assert!(held[1].1.try_recv().is_ok() && held[2].1.try_recv().is_err(), "one slot was needed");
        small.grow(10).unwrap();
        assert!(held[3].1.try_recv().is_ok() && held[2].1.try_recv().is_err(), "a body without bytes frees none");
        assert!(large_ended.try_recv().is_err(), "it is as large, but has not taken long");
    }

    /// Returns a request whose body has this many bytes per second.
    fn trickle(bytes: usize) -> Request {
        let pieces = stream::repeat(()).take(100).then(move |()| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))
        });
        Request::new(Body::from_stream(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_ends_soon_and_a_steady_one_after_the_whole_time() {
        let arrivals = Arrivals::new(Shares { bytes: 8 << 20, bytes_each: 8 << 20, ..SHARES });
        for (rate, grace, seconds) in [(1, GRACE, 5), (64 << 10, GRACE, 30), (1, BODY_TIME, 30)] {
            let begun = Instant::now();
            let error = arrivals.read(trickle(rate), 100 << 20, sender(1), grace).await.err().unwrap();
            assert_eq!((status(error), begun.elapsed().as_secs()), (408, seconds), "{rate} bytes per second");
        }
        assert!(arrivals.table().bodies.is_empty());
    }

    #[tokio::test]
    async fn a_body_is_read_whole_and_a_declared_length_is_checked_first() {
        let arrivals = Arrivals::new(SHARES);
        let (bytes, arrival) = arrivals.read(Request::new(Body::from("abc")), 3, sender(1), GRACE).await.unwrap();
        assert_eq!((&*bytes, arrivals.table().bytes), (b"abc".as_slice(), 3));
        drop(arrival);
        let request = Request::builder().header("content-length", "4").body(Body::empty()).unwrap();
        assert_eq!(refused(arrivals.read(request, 3, sender(1), GRACE).await), 413);
        assert_eq!(refused(arrivals.read(Request::new(Body::from("abcd")), 3, sender(1), GRACE).await), 413);
    }
}
