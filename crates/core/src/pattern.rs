//! Patterns of claims of trusts, of branches and of paths: exact text, or text with `*` and `**`.

/// A part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// This character.
    One(char),
    /// Any number of characters other than `/`.
    InSegment,
    /// Any number of characters.
    Across,
}

fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for character in pattern.chars() {
        match (character, parts.last_mut()) {
            ('*', Some(last @ (Part::InSegment | Part::Across))) => *last = Part::Across,
            ('*', _) => parts.push(Part::InSegment),
            (character, _) => parts.push(Part::One(character)),
        }
    }
    parts
}

/// Returns whether a pattern matches a whole text. `*` matches any number of characters within one segment of a path, and
/// `**` also across segments. All other characters match themselves.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let parts = parts(pattern);
    // `reached[n]` is true if the first `n` parts match the text that was read. The running time is
    // proportional to the product of both lengths, for every pattern.
    let mut reached = vec![false; parts.len() + 1];
    reached[0] = true;
    skip_wildcards(&parts, &mut reached);
    for character in text.chars() {
        let mut next = vec![false; parts.len() + 1];
        for (index, part) in parts.iter().enumerate().filter(|(index, _)| reached[*index]) {
            match part {
                Part::One(one) if *one == character => next[index + 1] = true,
                Part::InSegment if character != '/' => next[index] = true,
                Part::Across => next[index] = true,
                Part::One(_) | Part::InSegment => {}
            }
        }
        skip_wildcards(&parts, &mut next);
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

/// Marks what follows a wildcard, because it may match no character.
fn skip_wildcards(parts: &[Part], reached: &mut [bool]) {
    for (index, part) in parts.iter().enumerate() {
        if reached[index] && matches!(part, Part::InSegment | Part::Across) {
            reached[index + 1] = true;
        }
    }
}

/// Returns whether a pattern has something other than wildcards and slashes.
#[must_use]
pub fn is_specific(pattern: &str) -> bool {
    pattern.chars().any(|character| !matches!(character, '*' | '/'))
}

/// Returns whether the first segment of a pattern has no wildcard, so that it names one owner.
#[must_use]
pub fn names_owner(pattern: &str) -> bool {
    let first = pattern.split('/').next().unwrap_or_default();
    !first.is_empty() && !first.contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_a_segment_and_two_stars_do_not() {
        for (pattern, text, expected) in [
            ("acme/shop", "acme/shop", true),
            ("acme/shop", "acme/shop2", false),
            ("acme/shop", "Acme/shop", false),
            ("acme/*", "acme/shop", true),
            ("acme/*", "acme/", true),
            ("acme/*", "acme", false),
            ("acme/*", "acme/shop/x", false),
            ("acme/*", "acmeevil/shop", false),
            ("acme/**", "acme/group/shop", true),
            ("acme/**/shop", "acme/a/b/shop", true),
            ("acme/**/shop", "acme/shop", false),
            ("acme/*/shop", "acme/a/b/shop", false),
            ("refs/heads/release-*", "refs/heads/release-1.2", true),
            ("refs/heads/release-*", "refs/heads/release-1/2", false),
            ("*", "", true),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("***", "a/b", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1b2", false),
            ("", "", true),
            ("", "x", false),
            ("?", "x", false),
            ("[a-z]", "b", false),
            ("über/*", "über/straße", true),
            ("acme/shop", "acme/shop\n", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_pattern_with_many_stars_takes_no_exponential_time() {
        assert!(!matches(&"*a".repeat(100), &"a".repeat(99)));
        assert!(matches(&"*a".repeat(100), &"a".repeat(4000)));
    }

    #[test]
    fn a_pattern_of_wildcards_names_nothing() {
        for (pattern, specific, owner) in [
            ("acme/shop", true, true),
            ("acme/*", true, true),
            ("acme", true, true),
            ("acme*/shop", true, false),
            ("*/shop", true, false),
            ("/shop", true, false),
            ("**/shop", true, false),
            ("*", false, false),
            ("*/*", false, false),
            ("**", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_specific(pattern), names_owner(pattern)), (specific, owner), "{pattern:?}");
        }
    }
}
