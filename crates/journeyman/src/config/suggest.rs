//! Suggestions for unknown names.

/// The minimum similarity of a name and its suggestion, from 0 to 1.
const SIMILAR: f64 = 0.6;

/// Returns the known name that is most similar to `name`, if one is similar.
pub(super) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let similarity = |one: &str| strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &one.to_lowercase());
    let similar = known.iter().map(|one| (similarity(one), *one)).filter(|(likeness, _)| *likeness >= SIMILAR);
    similar.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, one)| one)
}

/// Asks whether the most similar known name was meant, or returns another text if none is similar.
pub(super) fn or_similar(name: &str, known: &[&str], otherwise: impl FnOnce() -> String) -> String {
    nearest(name, known).map_or_else(otherwise, |near| format!("did you mean {near}?"))
}

/// Lists the known names.
pub(super) fn among(known: &[&str]) -> String {
    format!("the known ones are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_suggested() {
        let known = ["listen", "log", "log-format", "public-url", "lease"];
        for (name, expected) in [
            ("lissten", Some("listen")),
            ("LISTEN", Some("listen")),
            ("public_url", Some("public-url")),
            ("publicurl", Some("public-url")),
            ("log-fromat", Some("log-format")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
        assert_eq!(or_similar("lissten", &known, String::new), "did you mean listen?");
        assert_eq!(or_similar("x", &["a", "b"], || among(&["a", "b"])), "the known ones are a, b");
    }
}
