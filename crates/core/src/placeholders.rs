//! Templates with placeholders such as `{title}`.

/// Replaces placeholders by their values in one pass, so that a placeholder in a value is not replaced. Other text in braces
/// stays.
#[must_use]
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        match values.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                text.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn placeholders_are_replaced_once() {
        let values = [("{a}", "{b}"), ("{b}", "x")];
        for (template, expected) in
            [("", ""), ("{a}{b}", "{b}x"), ("{c} {a", "{c} {a"), ("{{b}}", "{x}"), ("ä{b}ö", "äxö")]
        {
            assert_eq!(fill(template, &values), expected, "{template}");
        }
    }
}
