//! The LFS server of the built-in code host: the batch API, the transfer `basic`, and its verification. The objects are in
//! the blob store.
//!
//! Invariants: an object can be read only through a project whose repository has it; an object is stored only if its
//! content has its hash and size; only a few pieces of a body are in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use journeyman_core::lfs::{Hasher, Pointer, SERVER, blob_key, is_oid};
use journeyman_core::ports::{BlobError, Blobs, GitBody, GitHttpRequest, GitHttpResponse, GitServerError, LfsServer};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::time::{Clock, IdGen};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::hosted::{Hosted, HostedError, name_of};
use crate::wire::MEDIA_TYPE;

/// The maximum size of a body that is JSON, in bytes.
const JSON_BYTES: usize = 4 << 20;

/// The maximum number of objects of a request.
const MAX_OBJECTS: usize = 1000;

/// The maximum size of an object, in bytes.
const OBJECT_BYTES: u64 = 10 << 30;

/// The longest wait for the next bytes of a client.
const IDLE: Duration = Duration::from_secs(120);

/// The folders of an LFS server.
#[derive(Debug, Clone)]
pub struct Folders {
    /// The folder for uploads that are not complete, which the next start of the service empties.
    pub scratch: PathBuf,
    /// The folder of the repositories.
    pub repositories: PathBuf,
}

/// The LFS server of the built-in code host. Cheap to clone.
#[derive(Clone)]
pub struct LfsHost {
    blobs: Arc<dyn Blobs>,
    folders: Folders,
    /// The URL of the service, without a slash at its end.
    public_url: String,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
}

impl LfsHost {
    /// Creates the server.
    #[must_use]
    pub fn new(
        blobs: Arc<dyn Blobs>,
        folders: Folders,
        public_url: String,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn IdGen>),
    ) -> Self {
        Self { blobs, folders, public_url, clock, ids }
    }
}

/// A refused request.
enum Refused {
    /// The status, and the reason for the client.
    Status(u16, String),
    /// A failure of this machine or of the blob store.
    Failed(String),
}

impl From<BlobError> for Refused {
    fn from(error: BlobError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<HostedError> for Refused {
    fn from(error: HostedError) -> Self {
        match error {
            HostedError::NoRepository => Self::Status(404, "the repository does not exist".to_owned()),
            HostedError::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Status(507, "the disk of the service is full".to_owned())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

fn refused(status: u16, text: impl Into<String>) -> Refused {
    Refused::Status(status, text.into())
}

/// A batch request.
#[derive(Deserialize)]
struct Batch {
    operation: String,
    transfers: Option<Vec<String>>,
    objects: Vec<Object>,
    hash_algo: Option<String>,
}

/// An object of a request.
#[derive(Deserialize)]
struct Object {
    oid: String,
    size: i64,
}

impl Object {
    /// Returns the pointer of a valid object.
    fn pointer(&self) -> Option<Pointer> {
        let bytes = u64::try_from(self.size).ok()?;
        is_oid(&self.oid).then(|| Pointer { oid: self.oid.clone(), bytes })
    }
}

#[async_trait]
impl LfsServer for LfsHost {
    async fn serve(
        &self,
        project: &Project,
        request: GitHttpRequest,
        may_write: bool,
    ) -> Result<GitHttpResponse, GitServerError> {
        let Ok(Address::Local(repository)) = parse_address(&project.repository) else {
            return Err(GitServerError::NotFound);
        };
        let git_dir = self.folders.repositories.join(format!("{repository}.git"));
        let objects = Hosted { blobs: &*self.blobs, git_dir: &git_dir, now: self.clock.now() };
        match self.answer(project, &objects, request, may_write).await {
            Ok(answer) => Ok(answer),
            Err(Refused::Status(status, message)) => Ok(answer(status, &json!({ "message": message }))),
            Err(Refused::Failed(detail)) => Err(GitServerError::Failed(detail)),
        }
    }
}

impl LfsHost {
    async fn answer(
        &self,
        project: &Project,
        objects: &Hosted<'_>,
        request: GitHttpRequest,
        may_write: bool,
    ) -> Result<GitHttpResponse, Refused> {
        let path = request.path.strip_prefix(SERVER).unwrap_or_default().to_owned();
        let object = path.strip_prefix("objects/").filter(|oid| is_oid(oid));
        match (request.method.as_str(), path.as_str(), object) {
            ("POST", "objects/batch", _) => self.batch(project, objects, request.body, may_write).await,
            ("GET" | "HEAD", _, Some(oid)) => self.download(objects.git_dir, oid).await,
            ("PUT", _, Some(oid)) => {
                let bytes = request.query.strip_prefix("size=").and_then(|size| size.parse().ok());
                let bytes = bytes.ok_or_else(|| refused(422, "the request does not have the size of the object"))?;
                check_write(may_write)?;
                let pointer = Pointer { oid: oid.to_owned(), bytes };
                self.upload(objects, &pointer, request.body).await
            }
            ("POST", "verify", _) => {
                let asked: Object = read_json(request.body).await?;
                let pointer = asked.pointer().ok_or_else(|| refused(422, "the object is not valid"))?;
                match objects.keep(&pointer).await? {
                    true => Ok(answer(200, &json!({}))),
                    false => Err(refused(404, "the object does not exist")),
                }
            }
            (_, path, _) if path == "locks" || path.starts_with("locks/") => {
                Err(refused(501, "this host has no locks for files"))
            }
            _ => Err(refused(404, "there is no such path")),
        }
    }

    async fn batch(
        &self,
        project: &Project,
        hosted: &Hosted<'_>,
        body: GitBody,
        may_write: bool,
    ) -> Result<GitHttpResponse, Refused> {
        let batch: Batch = read_json(body).await?;
        if batch.transfers.is_some_and(|known| !known.is_empty() && !known.iter().any(|one| one == "basic")) {
            return Err(refused(422, "this host supports only the transfer basic"));
        }
        if batch.hash_algo.is_some_and(|hash| hash != "sha256") {
            return Err(refused(409, "this host supports only the hash sha256"));
        }
        if batch.objects.len() > MAX_OBJECTS {
            return Err(refused(413, format!("a request may have at most {MAX_OBJECTS} objects")));
        }
        let is_upload = match batch.operation.as_str() {
            "download" => false,
            "upload" => true,
            _ => return Err(refused(422, "the operation must be download or upload")),
        };
        if is_upload {
            check_write(may_write)?;
        }
        let base = format!("{}/git/{}.git{SERVER}", self.public_url, project.id);
        let mut objects = Vec::new();
        for asked in &batch.objects {
            let mut object = json!({ "oid": asked.oid, "size": asked.size });
            let error = |code: u16, message: &str| json!({ "code": code, "message": message });
            match asked.pointer() {
                None => object["error"] = error(422, "the object is not valid"),
                Some(pointer) if is_upload && pointer.bytes > OBJECT_BYTES => {
                    object["error"] = error(422, &format!("an object may have at most {OBJECT_BYTES} bytes"));
                }
                Some(pointer) => {
                    let url = format!("{base}objects/{}", pointer.oid);
                    let is_there = if is_upload { hosted.keep(&pointer).await? } else { hosted.has(&pointer).await? };
                    match (is_upload, is_there) {
                        (false, true) => object["actions"] = json!({ "download": { "href": url } }),
                        (false, false) => object["error"] = error(404, "the object does not exist"),
                        (true, true) => {}
                        (true, false) => {
                            object["actions"] = json!({
                                "upload": { "href": format!("{url}?size={}", pointer.bytes) },
                                "verify": { "href": format!("{base}verify") },
                            });
                        }
                    }
                }
            }
            objects.push(object);
        }
        Ok(answer(200, &json!({ "transfer": "basic", "objects": objects, "hash_algo": "sha256" })))
    }

    async fn download(&self, git_dir: &Path, oid: &str) -> Result<GitHttpResponse, Refused> {
        let found = self.blobs.open(&blob_key(name_of(git_dir), oid)).await?;
        let found = found.ok_or_else(|| refused(404, "the object does not exist"))?;
        let headers = [("Content-Type", "application/octet-stream"), ("Content-Length", &found.bytes.to_string())];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Ok(GitHttpResponse { status: 200, headers, body: found.body })
    }

    async fn upload(&self, hosted: &Hosted<'_>, pointer: &Pointer, body: GitBody) -> Result<GitHttpResponse, Refused> {
        if pointer.bytes > OBJECT_BYTES {
            return Err(refused(413, format!("an object may have at most {OBJECT_BYTES} bytes")));
        }
        let scratch = &self.folders.scratch;
        tokio::fs::create_dir_all(scratch).await?;
        let file = scratch.join(format!("{}.upload", self.ids.uuid(self.clock.now()).simple()));
        let stored = async {
            receive(pointer, body, &file).await?;
            hosted.store(pointer, &file).await?;
            Ok(answer(200, &json!({})))
        };
        let stored = stored.await;
        match tokio::fs::remove_file(&file).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the file of an upload could not be removed");
            }
            _ => {}
        }
        stored
    }
}

/// Writes a body to a file, and checks its size and hash.
async fn receive(pointer: &Pointer, mut body: GitBody, file: &PathBuf) -> Result<(), Refused> {
    let (mut file, mut hasher) = (tokio::fs::File::create(file).await?, Hasher::default());
    loop {
        let piece = timeout(IDLE, body.next()).await.map_err(|_| refused(408, "the upload is too slow"))?;
        let Some(piece) = piece else { break };
        let piece = piece.map_err(|error| refused(400, format!("the upload broke off: {error}")))?;
        hasher.update(&piece);
        if hasher.bytes() > pointer.bytes {
            return Err(refused(422, "the content is longer than the object"));
        }
        file.write_all(&piece).await?;
    }
    file.flush().await?;
    if hasher.pointer() != *pointer {
        return Err(refused(422, "the content does not match the size and the hash of the object"));
    }
    Ok(())
}

fn check_write(may_write: bool) -> Result<(), Refused> {
    match may_write {
        true => Ok(()),
        false => Err(refused(403, "this key may not push")),
    }
}

/// Reads a body as JSON.
async fn read_json<T: for<'de> Deserialize<'de>>(mut body: GitBody) -> Result<T, Refused> {
    let mut text = Vec::new();
    loop {
        let piece = timeout(IDLE, body.next()).await.map_err(|_| refused(408, "the request is too slow"))?;
        let Some(piece) = piece else { break };
        text.extend_from_slice(&piece.map_err(|error| refused(400, format!("the request broke off: {error}")))?);
        if text.len() > JSON_BYTES {
            return Err(refused(413, format!("a request may have at most {JSON_BYTES} bytes")));
        }
    }
    serde_json::from_slice(&text).map_err(|error| refused(422, format!("the request is not valid: {error}")))
}

fn answer(status: u16, body: &Value) -> GitHttpResponse {
    let body = Bytes::from(body.to_string());
    let headers = vec![("Content-Type".to_owned(), MEDIA_TYPE.to_owned())];
    GitHttpResponse { status, headers, body: Box::pin(stream::iter([Ok(body)])) }
}
