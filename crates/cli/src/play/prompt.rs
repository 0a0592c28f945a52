//! A person at the prompt.

use super::{
    dry::Prepared,
    line::{self, Meaning},
    session::{Action, Argument, Item, Session},
    show,
};
use crate::{Stop, simulate::shortened, terminal::printable};
use interlock::workflow::{Kind, file::File};
use serde_json::{Map, Value};
use std::{
    io::{self, Write},
    sync::Arc,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, BufReader, Stdin},
    sync::Mutex,
};

const HELP: &str = "  NAME or NUMBER     call it; its arguments are asked for
  NAME {json}        call it with these arguments
  call TOOL {json}, read URI, get PROMPT {json}
                     the same, also for what is not listed now
  approve yes|no|later
                     answer before it is asked, for the next call that needs a person's yes
  list               what is callable, with its arguments
  state              where the workflow stands
  quit               end; so does the end of input";

const DRY_HELP: &str = "  wait 30m           let time pass; timers fire
  ctx                what is remembered
  settle OUTCOME     say how the call ended that nobody knew the end of
  outcome OUTCOME, result {json}, sampling success {json}|error
                     answer before it is asked, for the next call that needs it";

/// Who types. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Keyboard(Arc<Mutex<Option<BufReader<Stdin>>>>);

/// Longer lines are not taken.
const LONGEST_LINE: usize = 1_000_000;

impl Keyboard {
    /// Asks for a line; `None` at the end of input.
    pub(crate) async fn ask(&self, question: &str) -> Option<String> {
        let mut input = self.0.lock().await;
        let input = input.get_or_insert_with(|| BufReader::new(tokio::io::stdin()));
        let mut out = io::stdout();
        loop {
            // Whoever wants it to end must be heard, even if there is much to read.
            tokio::task::yield_now().await;
            write!(out, "{}", printable(question)).ok()?;
            out.flush().ok()?;
            match line(input).await.ok()? {
                Line::Typed(line) => return Some(line),
                Line::TooLong => {
                    writeln!(out, "  the line is longer than 1 MB, and was not read").ok()?;
                }
                Line::End => return None,
            }
        }
    }
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Typed(String),
    TooLong,
    End,
}

/// Reads a line to its end, be it too long or not. What is no text is taken for what it looks
/// like.
async fn line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut length = 0_usize;
    loop {
        let bytes = input.fill_buf().await?;
        if bytes.is_empty() && length == 0 {
            return Ok(Line::End);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        length = length.saturating_add(part.len());
        if length <= LONGEST_LINE {
            line.extend_from_slice(part);
        }
        let is_last = end.is_some() || bytes.is_empty();
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if is_last {
            return Ok(match length <= LONGEST_LINE {
                true => Line::Typed(String::from_utf8_lossy(&line).into_owned()),
                false => Line::TooLong,
            });
        }
    }
}

/// What a person typed.
#[derive(Debug, PartialEq)]
enum Typed {
    Nothing,
    Help,
    List,
    State,
    Memory,
    Quit,
    Do(Action),
    Prepare(Prepared),
    /// To be called once its arguments are known.
    Ask(Item),
    Wrong(String),
}

/// Goes on until the player has had enough.
pub(crate) async fn play(
    file: &File,
    mut session: Session<'_>,
    keyboard: &Keyboard,
) -> Result<(), Stop> {
    let mut out = io::stdout();
    let title = match &file.description {
        Some(description) => format!("{}: {description}", file.name),
        None => file.name.clone(),
    };
    writeln!(out, "{}", printable(&title))?;
    writeln!(out, "{}", show::standing(&session))?;
    writeln!(out, "{}", show::menu(session.items()))?;
    writeln!(out, "type a name or a number, or help")?;
    while let Some(line) = keyboard.ask("> ").await {
        let items: Vec<_> = session.items().cloned().collect();
        let dry = session.dry();
        let action = match understand(&line, &items, Mode::of(dry.is_some())) {
            Typed::Nothing => continue,
            Typed::Quit => return Ok(()),
            Typed::Help => {
                writeln!(out, "{HELP}")?;
                if dry.is_some() {
                    writeln!(out, "{DRY_HELP}")?;
                }
                continue;
            }
            Typed::List => {
                writeln!(out, "{}", show::menu(items.iter()))?;
                continue;
            }
            Typed::State => {
                writeln!(out, "{}", show::place(&session))?;
                continue;
            }
            Typed::Memory => {
                let memory = dry.map(|dry| dry.memory()).unwrap_or_default();
                writeln!(out, "  {}", printable(&memory))?;
                continue;
            }
            Typed::Prepare(prepared) => {
                session.prepare(&prepared);
                continue;
            }
            Typed::Wrong(why) => {
                writeln!(out, "  {}", printable(&why))?;
                continue;
            }
            Typed::Do(action) => action,
            Typed::Ask(item) => match fill_in(&item, keyboard).await {
                Some(arguments) => of(item.kind, item.name, arguments),
                None => break,
            },
        };
        let told = session.perform(&action).await?;
        writeln!(out, "{}", show::told(&told))?;
        if !told.changes.is_empty() {
            writeln!(out, "{}", show::menu(session.items()))?;
        }
    }
    // The shell's prompt would stand behind ours.
    writeln!(out)?;
    Ok(())
}

async fn fill_in(item: &Item, keyboard: &Keyboard) -> Option<Map<String, Value>> {
    let mut arguments = Map::new();
    for argument in &item.arguments {
        let question = format!("  {}: ", show::signature(argument));
        let typed = keyboard.ask(&question).await?;
        if let Some(value) = value(argument, &typed) {
            arguments.insert(argument.name.clone(), value);
        }
    }
    Some(arguments)
}

fn understand(line: &str, items: &[Item], mode: Mode) -> Typed {
    let line = line.trim();
    match line {
        "" => return Typed::Nothing,
        "help" | "?" => return Typed::Help,
        "list" => return Typed::List,
        "state" => return Typed::State,
        "quit" | "exit" => return Typed::Quit,
        _ => {}
    }
    match line::action(line) {
        Ok(Some(action)) => return Typed::Do(action),
        Ok(None) => {}
        Err(why) => return Typed::Wrong(why),
    }
    let (name, json) = line::split(line);
    // What is listed under such a name is meant before what is said about calls.
    if items.iter().all(|item| item.name != name) {
        let meaning = match (name, mode) {
            ("approve", _) => line::consent(json).map(|said| Some(Meaning::Prepare(said))),
            (_, Mode::Dry) => line::dry(line),
            (_, Mode::Served) => Ok(None),
        };
        match meaning {
            Ok(Some(meaning)) => return from_script(meaning),
            Ok(None) => {}
            Err(why) => return Typed::Wrong(why),
        }
    }
    let is_known = name.parse::<usize>().is_ok() || items.iter().any(|item| item.name == name);
    if !is_known && !json.is_empty() && !json.starts_with('{') {
        return Typed::Wrong(format!(
            "there is no command `{}`, and nothing listed is called so: type help, or list",
            shortened(name)
        ));
    }
    let item = match find(name, items) {
        Ok(item) => item,
        Err(why) => return Typed::Wrong(why),
    };
    if json.is_empty() && !item.arguments.is_empty() {
        return Typed::Ask(item);
    }
    match line::arguments(json) {
        Ok(arguments) => Typed::Do(of(item.kind, item.name, arguments)),
        Err(why) => Typed::Wrong(why),
    }
}

/// Whether time and outcomes are the player's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Served,
    Dry,
}

impl Mode {
    fn of(dry: bool) -> Self {
        match dry {
            true => Self::Dry,
            false => Self::Served,
        }
    }
}

fn from_script(meaning: Meaning) -> Typed {
    match meaning {
        Meaning::Do(action) => Typed::Do(action),
        Meaning::Prepare(prepared) => Typed::Prepare(prepared),
        Meaning::Memory => Typed::Memory,
        Meaning::List => Typed::List,
        Meaning::State => Typed::State,
        Meaning::Nothing | Meaning::Expect(_) => Typed::Nothing,
    }
}

/// What a name or a number means. What is not listed may still be asked for, to see it refused.
fn find(name: &str, items: &[Item]) -> Result<Item, String> {
    if let Ok(number) = name.parse::<usize>() {
        let item = number.checked_sub(1).and_then(|at| items.get(at));
        return item
            .cloned()
            .ok_or_else(|| format!("there is no number {number}"));
    }
    let mut named = items.iter().filter(|item| item.name == name);
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => Err(format!("several things are called {name}: take the number")),
        (Some(item), None) => Ok(item.clone()),
        (None, _) => Ok(Item {
            kind: match name.contains("://") {
                true => Kind::Resource,
                false => Kind::Tool,
            },
            name: name.to_owned(),
            description: None,
            arguments: Vec::new(),
        }),
    }
}

fn of(kind: Kind, name: String, arguments: Map<String, Value>) -> Action {
    match kind {
        Kind::Tool => Action::Call(name, arguments),
        Kind::Resource => Action::Read(name),
        Kind::Prompt => Action::Get(name, arguments),
    }
}

/// What was typed as the argument's type; nothing leaves it out. What does not fit its type is
/// sent as a text, for the server to refuse.
fn value(argument: &Argument, typed: &str) -> Option<Value> {
    let typed = typed.trim();
    if typed.is_empty() {
        return None;
    }
    if argument.of.as_deref() == Some("string") {
        return Some(typed.into());
    }
    Some(serde_json::from_str(typed).unwrap_or_else(|_| typed.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock::workflow::Outcome;
    use serde_json::json;
    use std::time::Duration;

    fn item(kind: Kind, name: &str, arguments: &[&str]) -> Item {
        let arguments = arguments.iter().map(|name| Argument {
            name: (*name).to_owned(),
            description: None,
            required: true,
            of: Some("string".to_owned()),
        });
        Item {
            kind,
            name: name.to_owned(),
            description: None,
            arguments: arguments.collect(),
        }
    }

    #[test]
    fn what_is_typed_is_a_command_a_number_a_name_or_a_call() {
        let items = [
            item(Kind::Tool, "refund", &["order"]),
            item(Kind::Resource, "note://rules", &[]),
            item(Kind::Prompt, "sorry", &[]),
            item(Kind::Tool, "sorry", &[]),
        ];
        let call = |name: &str, value: Value| {
            Typed::Do(Action::Call(
                name.into(),
                value.as_object().unwrap().clone(),
            ))
        };
        for (line, typed) in [
            ("", Typed::Nothing),
            (" quit ", Typed::Quit),
            ("help", Typed::Help),
            ("1", Typed::Ask(items[0].clone())),
            ("refund", Typed::Ask(items[0].clone())),
            (
                "refund {\"order\": \"A\"}",
                call("refund", json!({"order": "A"})),
            ),
            ("1 {}", call("refund", json!({}))),
            ("2", Typed::Do(Action::Read("note://rules".into()))),
            ("3", Typed::Do(Action::Get("sorry".into(), Map::new()))),
            ("call other {}", call("other", json!({}))),
            ("other", call("other", json!({}))),
            ("note://x", Typed::Do(Action::Read("note://x".into()))),
            ("0", Typed::Wrong("there is no number 0".into())),
            (
                "sorry",
                Typed::Wrong("several things are called sorry: take the number".into()),
            ),
        ] {
            for mode in [Mode::Served, Mode::Dry] {
                assert_eq!(understand(line, &items, mode), typed, "{line:?}");
            }
        }
        let wrong = understand("1 {", &items, Mode::Served);
        assert!(matches!(wrong, Typed::Wrong(_)));
    }

    #[test]
    fn words_that_are_no_command_are_not_taken_for_arguments() {
        let items = [item(Kind::Tool, "refund", &["order"])];
        for line in ["expect state x", "list of things"] {
            let Typed::Wrong(why) = understand(line, &items, Mode::Dry) else {
                panic!("{line}");
            };
            assert!(why.contains("there is no command"), "{why}");
        }
        let Typed::Wrong(why) = understand("refund A-1", &items, Mode::Dry) else {
            panic!("it has no object");
        };
        assert!(why.contains("not an object"), "{why}");
    }

    #[tokio::test]
    async fn lines_are_bounded_and_need_not_be_text() {
        let mut input = b"a\xffb\r\n\n".to_vec();
        input.extend(vec![b'x'; LONGEST_LINE]);
        input.push(b'\n');
        input.extend(vec![b'y'; LONGEST_LINE + 1]);
        input.extend(b"\nlast");
        let mut input = BufReader::new(&input[..]);
        let mut lines = Vec::new();
        for _ in 0..6 {
            lines.push(line(&mut input).await.unwrap());
        }
        let typed = |text: &str| Line::Typed(text.to_owned());
        let expected = [
            typed("a\u{fffd}b\r"),
            typed(""),
            typed(&"x".repeat(LONGEST_LINE)),
            Line::TooLong,
            typed("last"),
            Line::End,
        ];
        assert!(lines == expected);
    }

    #[test]
    fn a_dry_run_understands_more_unless_a_tool_is_called_so() {
        let items = [item(Kind::Tool, "settle", &[])];
        let hour = Action::Wait(Duration::from_secs(3600));
        assert_eq!(understand("wait 1h", &items, Mode::Dry), Typed::Do(hour));
        assert_eq!(understand("ctx", &items, Mode::Dry), Typed::Memory);
        assert_eq!(
            understand("outcome error", &items, Mode::Dry),
            Typed::Prepare(Prepared::Outcome(Outcome::Error))
        );
        let call = Typed::Do(Action::Call("settle".into(), Map::new()));
        assert_eq!(understand("settle", &items, Mode::Dry), call);
        assert!(matches!(
            understand("wait 1h", &items, Mode::Served),
            Typed::Wrong(_)
        ));
        let call = Typed::Do(Action::Call("ctx".into(), Map::new()));
        assert_eq!(understand("ctx", &items, Mode::Served), call);
    }

    #[test]
    fn an_argument_is_read_by_its_type() {
        let of = |of: &str| Argument {
            name: "a".into(),
            description: None,
            required: false,
            of: Some(of.into()),
        };
        assert_eq!(value(&of("string"), " 12 "), Some(json!("12")));
        assert_eq!(value(&of("integer"), "12"), Some(json!(12)));
        assert_eq!(value(&of("boolean"), "true"), Some(json!(true)));
        assert_eq!(value(&of("array"), "[1]"), Some(json!([1])));
        assert_eq!(value(&of("integer"), "twelve"), Some(json!("twelve")));
        assert_eq!(value(&of("integer"), ""), None);
    }
}
