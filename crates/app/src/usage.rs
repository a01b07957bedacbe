//! Reports on the usage of models.

use std::collections::HashMap;

use journeyman_core::usage::{UsageLine, UsageQuery, UsageSum, format_day};

use crate::{Caller, Error, UseCases, table};

/// The names of the columns of a usage table, in order.
pub const USAGE_COLUMNS: [&str; 13] = [
    "day",
    "project",
    "model",
    "author",
    "key",
    "keyName",
    "runs",
    "inputTokens",
    "outputTokens",
    "cachedTokens",
    "costMicros",
    "unpriced",
    // New columns come last, so that scripts find the others.
    "estimatedMicros",
];

impl UseCases {
    /// Returns the lines of a report about the projects that the caller may see.
    ///
    /// # Errors
    /// The store failed.
    pub async fn usage(&self, caller: &Caller, query: UsageQuery) -> Result<Vec<UsageLine>, Error> {
        let projects = caller.visible(query.projects.clone());
        let mut lines = self.parts().store.usage(UsageQuery { projects, ..query.clone() }).await?;
        // Without groups, there is always one line.
        if lines.is_empty() && query.groups.is_empty() {
            lines.push(UsageLine::default());
        }
        Ok(lines)
    }
}

/// Returns the lines of a report as CSV. The first line has the names of the columns; `names` are the names of keys by
/// their IDs. A text that a spreadsheet would take for a formula begins with an apostrophe.
///
/// # Errors
/// A line cannot be written.
pub fn usage_table(lines: Vec<UsageLine>, names: &HashMap<String, String>) -> Result<Vec<u8>, Error> {
    let mut table = table::writer();
    table.write_record(USAGE_COLUMNS).map_err(|error| table::failed(&error))?;
    for line in lines {
        table.write_record(columns(line, names)).map_err(|error| table::failed(&error))?;
    }
    table::finished(table)
}

fn columns(line: UsageLine, names: &HashMap<String, String>) -> [String; 13] {
    let text = |value: Option<String>| {
        let mut text = value.unwrap_or_default();
        table::no_formula(&mut text);
        text
    };
    let UsageSum { runs, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros, estimated_micros } =
        line.sum;
    let numbers = [runs, input_tokens, output_tokens, cached_tokens, cost_micros, unpriced, estimated_micros];
    let [runs, input, output, cached, cost, unpriced, estimated] = numbers.map(|number| number.to_string());
    let (day, project) = (line.day.map(format_day), line.project.map(|project| project.to_string()));
    let key = line.key.map(|key| key.to_string());
    let key_name = key.as_ref().and_then(|key| names.get(key)).cloned();
    let [project, model, author, key, key_name] = [project, line.model, line.author, key, key_name].map(text);
    let day = day.unwrap_or_default();
    [day, project, model, author, key, key_name, runs, input, output, cached, cost, unpriced, estimated]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_group_and_no_formulas() {
        let sum = UsageSum {
            runs: 2,
            cost_micros: 30,
            estimated_micros: 4,
            input_tokens: 10,
            output_tokens: 5,
            ..UsageSum::default()
        };
        let author = Some("=HYPERLINK(\"http://x\")".to_owned());
        let line = UsageLine { day: Some(31), model: Some("a/b, c".to_owned()), author, sum, ..UsageLine::default() };
        let text = String::from_utf8(usage_table(vec![line], &HashMap::new()).unwrap()).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0], USAGE_COLUMNS.join(","));
        assert_eq!(lines[1], "1970-02-01,,\"a/b, c\",\"'=HYPERLINK(\"\"http://x\"\")\",,,2,10,5,0,30,0,4");
        assert_eq!(lines[2..], [""]);
    }
}
