//! The settings of what callers may use at the same time.

use anyhow::bail;
use journeyman_app::{Limit, Limits};

use super::bytes::Bytes;
use super::layer::Layer;

/// Returns the limits of a layer. A limit for each key that is not set is the default, but not more than that for all.
pub(super) fn resolve(layer: &Layer) -> anyhow::Result<Limits> {
    let usual = Limits::default();
    let number = |name: &str, all: Option<u32>, each: Option<u32>, usual: Limit| {
        if all == Some(0) || each == Some(0) {
            bail!("{name} and {name}-per-key must be at least 1");
        }
        let all = all.unwrap_or(usual.all);
        Ok(Limit { all, each: each.unwrap_or(usual.each).min(all) })
    };
    let kib = |given: Option<Bytes>| given.map(|Bytes(bytes)| u32::try_from(bytes / 1024).unwrap_or(u32::MAX));
    Ok(Limits {
        git: number("max-git-requests", layer.max_git_requests, layer.max_git_requests_per_key, usual.git)?,
        streams: number("max-streams", layer.max_streams, layer.max_streams_per_key, usual.streams)?,
        calls: number("max-calls", layer.max_calls, layer.max_calls_per_key, usual.calls)?,
        memory: number(
            "max-response-memory",
            kib(layer.max_response_memory),
            kib(layer.max_response_memory_per_key),
            usual.memory,
        )?,
        pushes: usual.pushes,
        wait: usual.wait,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_for_each_key_is_at_most_that_for_all_and_none_is_0() {
        assert_eq!(resolve(&Layer::default()).unwrap(), Limits::default());
        let few = Layer { max_git_requests: Some(3), max_response_memory: Some(Bytes(1 << 20)), ..Layer::default() };
        let limits = resolve(&few).unwrap();
        assert_eq!((limits.git, limits.memory), (Limit { all: 3, each: 3 }, Limit { all: 1024, each: 1024 }));
        let none = Layer { max_streams_per_key: Some(0), ..Layer::default() };
        assert!(resolve(&none).unwrap_err().to_string().contains("max-streams-per-key"));
    }
}
