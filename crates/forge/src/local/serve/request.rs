//! Selects the request to git by method, path and query.
//!
//! Invariant: only exact matches of four requests are served. `git http-backend` decodes a query and takes the last
//! `service` in it, so `service=git-upload-pack&service=%67it-receive-pack` begins a push. Therefore the callers of
//! [`needs_write`] and of git must not interpret a query differently.

/// A request that git serves. Its strings are constants, not those of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The method: `GET` or `POST`.
    pub(super) method: &'static str,
    /// The path below the repository.
    pub(super) path: &'static str,
    /// The query, without the question mark.
    pub(super) query: &'static str,
    writes: bool,
}

/// The requests that are served.
const SERVED: &[Asked] = &[
    Asked { method: "GET", path: "/info/refs", query: "service=git-upload-pack", writes: false },
    Asked { method: "POST", path: "/git-upload-pack", query: "", writes: false },
    Asked { method: "GET", path: "/info/refs", query: "service=git-receive-pack", writes: true },
    Asked { method: "POST", path: "/git-receive-pack", query: "", writes: true },
];

impl Asked {
    /// Returns the matching request; `None` if it is not served.
    pub(super) fn read(method: &str, path: &str, query: &str) -> Option<&'static Self> {
        SERVED.iter().find(|asked| asked.method == method && asked.path == path && asked.query == query)
    }
}

/// Returns whether a request of git below a repository belongs to a push. A request that is not known to be a read
/// counts as a write.
pub(super) fn needs_write(path: &str, query: &str) -> bool {
    !SERVED.iter().any(|asked| !asked.writes && asked.path == path && asked.query == query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_read_and_pushes_write() {
        assert!(!needs_write("/info/refs", "service=git-upload-pack"));
        assert!(!needs_write("/git-upload-pack", ""));
        assert!(needs_write("/info/refs", "service=git-receive-pack"));
        assert!(needs_write("/git-receive-pack", ""));
    }

    #[test]
    fn a_push_that_looks_like_a_fetch_is_neither_read_nor_served() {
        for (method, path, query) in [
            ("GET", "/info/refs", "service=git-upload-pack&service=git-receive-pack"),
            ("GET", "/info/refs", "service=git-upload-pack&service=%67it-receive-pack"),
            ("GET", "/info/refs", ""),
            ("GET", "/info/../git-upload-pack", ""),
            ("GET", "/HEAD", ""),
            ("POST", "/git-upload-archive", ""),
        ] {
            assert!(needs_write(path, query), "{path}?{query}");
            assert_eq!(Asked::read(method, path, query), None, "{path}?{query}");
        }
        assert_eq!(Asked::read("POST", "/info/refs", "service=git-upload-pack"), None);
    }
}
