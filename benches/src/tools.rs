//! The list of tools that every server has: `echo`, and twenty that only take part in the list.

use std::io;

use serde_json::Value;

/// As many as `echo` has by itself.
pub const USUAL: usize = 21;

/// What the example `echo` answers to `tools/list`, tool by tool.
const LIST: &str = include_str!("tools.json");

/// So many tools as JSON, as compact as a server writes it. After the first twenty-one, those
/// after `echo` come again and again with other names.
///
/// ```
/// let tools = interlock_benches::tools::json(22)?;
/// assert!(tools.contains(r#""name":"tool_21""#));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn json(number: usize) -> io::Result<String> {
    let first: Vec<Value> = serde_json::from_str(LIST)?;
    let Some((echo, others)) = first.split_first() else {
        return Err(io::Error::other("the list of tools is empty"));
    };
    let repeated = others.iter().cycle().zip(1..).map(|(tool, number)| {
        let mut tool = tool.clone();
        tool["name"] = Value::String(format!("tool_{number:02}"));
        tool
    });
    let tools: Vec<Value> = std::iter::once(echo.clone())
        .chain(repeated)
        .take(number)
        .collect();
    Ok(serde_json::to_string(&tools)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(number: usize) -> Vec<String> {
        let tools: Vec<Value> = serde_json::from_str(&json(number).unwrap()).unwrap();
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    #[test]
    fn the_usual_tools_are_those_of_the_example() {
        let names = names(USUAL);
        assert_eq!(names.len(), USUAL);
        assert_eq!(names[0], "echo");
        assert_eq!(names[20], "tool_20");
    }

    #[test]
    fn more_tools_have_names_of_their_own() {
        let mut names = names(2_000);
        assert_eq!(names[1_999], "tool_1999");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2_000);
    }
}
