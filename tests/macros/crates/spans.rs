//! Where errors point, as an editor is told.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SERDE, TinyCrate, dependency};

const PRELUDE: &str = "use queuey::prelude::*;\n";

const SUPERTRAITS: &str = "Debug, Clone, Copy, PartialEq, Eq, Hash, ";

/// Programs with their mistakes between « and ».
fn cases() -> Vec<(&'static str, String)> {
    let queue =
        |keys: &str| format!("#[derive(§Queues)]\nenum Set {{\n    #[queue({keys})]\n    Mails,\n}}\n");
    let job = |attribute: &str, fields: &str| {
        let set = "#[derive(§Queues)]\nenum Set {\n    Mails,\n}\n";
        format!("{set}#[derive(Serialize, Deserialize, Job)]\n{attribute}\nstruct SendMail {{ {fields} }}\n")
    };
    vec![
        ("unknown_key", queue("prefetch = 1, «prefech» = 5")),
        ("unknown_key_of_two_words", queue("«max_prioritty» = 3")),
        (
            "queue_on_the_enum",
            "#[derive(§Queues)]\n«#[queue(prefetch = 1)]»\nenum Set {\n    Mails,\n}\n".to_owned(),
        ),
        (
            "queues_on_a_variant",
            "#[derive(§Queues)]\nenum Set {\n    «#[queues(prefix = \"a\")]»\n    Mails,\n}\n".to_owned(),
        ),
        ("job_on_a_field", job("#[job(queue = Set::Mails)]", "«#[job(name = \"a\")]» to: String")),
        ("key_twice", queue("prefetch = 1, «prefetch» = 2")),
        ("key_in_two_attributes", queue("prefetch = 1)]\n    #[queue(«prefetch» = 2")),
        ("key_of_retry", queue("retry(«backof» = \"fixed\")")),
        ("text_for_a_flag", queue("durable = «\"false\"»")),
        ("text_for_a_number", queue("prefetch = «\"10\"»")),
        ("suffix", queue("prefetch = «10u16»")),
        ("negative", queue("prefetch = «-1»")),
        ("unit_that_is_none", queue("message_ttl = «\"5 sec\"»")),
        ("empty_duration", queue("message_ttl = «\"\"»")),
        ("no_variant_of_the_set", job("#[job(queue = Set::«Mail»)]", "to: String")),
        ("three_mistakes", queue("«prefech» = 5, durable = «\"no\"», retry(max_attempts = «0»)")),
        (
            "handler",
            job("#[job(queue = Set::Mails)]", "to: String")
                + "#[handler(concurrency = «0», «timeuot» = 5)]\nasync fn send(job: «&SendMail», n: State<«impl» Clone>) {}\n",
        ),
        ("handler_of_no_job", "#[handler]\nasync fn send(job: «String», ctx: JobContext) {}\n".to_owned()),
    ]
}

/// From line and column to line and column, counted from 1.
type Span = (u64, u64, u64, u64);

/// The program without its marks, and what they mark.
fn unmarked(program: &str) -> (String, Vec<Span>) {
    let (mut text, mut spans, mut begun) = (String::new(), Vec::new(), (0, 0));
    let program = program.replace('§', SUPERTRAITS);
    let (mut line, mut column) = (1, 1);
    for character in format!("{PRELUDE}{program}fn main() {{}}\n").chars() {
        match character {
            '«' => begun = (line, column),
            '»' => spans.push((begun.0, begun.1, line, column)),
            character => {
                text.push(character);
                (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
            }
        }
    }
    (text, spans)
}

/// The primary spans of all errors, per program.
fn reported(json: &str) -> BTreeMap<String, Vec<Span>> {
    let mut reported = BTreeMap::<String, Vec<Span>>::new();
    let messages = json.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for message in messages.filter(|message| message["message"]["level"] == "error") {
        let spans = message["message"]["spans"].as_array().cloned().unwrap_or_default();
        let number = |span: &Value, key: &str| span[key].as_u64().expect("a number");
        let primary = spans.iter().filter(|span| span["is_primary"] == true).map(|span| {
            let [from, to] = [("line_start", "column_start"), ("line_end", "column_end")]
                .map(|(line, column)| (number(span, line), number(span, column)));
            (from.0, from.1, to.0, to.1)
        });
        let program = message["target"]["name"].as_str().expect("a name").to_owned();
        reported.entry(program).or_default().extend(primary);
    }
    reported
}

#[test]
fn every_error_points_at_the_bad_token_and_all_are_reported_in_one_run() {
    // M12, M13
    let dependencies = format!("[dependencies]\n{}{SERDE}", dependency("queuey", "queuey", ""));
    let mut tiny = TinyCrate::new("spans").package("spans", 2024, &dependencies);
    let mut wanted = BTreeMap::new();
    for (name, program) in cases() {
        let (text, mut spans) = unmarked(&program);
        tiny = tiny.file(&format!("src/bin/{name}.rs"), &text);
        spans.sort_unstable();
        wanted.insert(name.to_owned(), spans);
    }
    let checked = tiny.cargo(&["check", "--quiet", "--bins", "--keep-going", "--message-format=json"]);
    let mut reported = reported(&checked.stdout());
    reported.values_mut().for_each(|spans| spans.sort_unstable());
    for (name, spans) in &wanted {
        assert_eq!(reported.get(name), Some(spans), "{name}");
    }
}
