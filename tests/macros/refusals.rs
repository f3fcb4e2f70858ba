//! What is refused at compile time: one file in `ui/<macro>/fail/` for each mistake, named after it. Files whose names
//! begin with `pair_` hold two mistakes that touch.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The compiler whose words the snapshots hold; others word their part of an error in their own way.
const PINNED: &str = "rustc 1.95.";

const MACROS: [&str; 3] = ["queues", "job", "handler"];

#[test]
fn every_refusal_reads_as_it_is_pinned() {
    // M08, M09, M11, M12, M18
    let rustc = Command::new("rustc").arg("--version").output().expect("there is a compiler").stdout;
    let rustc = String::from_utf8_lossy(&rustc);
    if rustc.starts_with(PINNED) {
        trybuild::TestCases::new().compile_fail("ui/*/fail/*.rs");
    } else {
        println!("the refusals are not compared: the snapshots are those of {PINNED}, and this is {rustc}");
    }
}

#[test]
fn one_mistake_is_one_error() {
    // M12: a file that has several says so in its first line, as in `// errors: 6`.
    for case in MACROS.iter().flat_map(|name| cases(name)) {
        let wanted = match first_line(&case).strip_prefix("// errors: ") {
            Some(count) => count.trim().parse().expect("a number of errors"),
            None => 1,
        };
        let shown = fs::read_to_string(case.with_extension("stderr")).expect("every case has its snapshot");
        let errors = shown.lines().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, wanted, "{}:\n{shown}", case.display());
        assert!(!shown.lines().any(|line| line.starts_with("warning")), "{}:\n{shown}", case.display());
    }
}

#[test]
fn every_error_of_ours_stands_at_what_was_written() {
    // M13: none of them underlines the derive or the attribute as a whole.
    for case in MACROS.iter().flat_map(|name| cases(name)) {
        let shown = fs::read_to_string(case.with_extension("stderr")).expect("every case has its snapshot");
        // What has a code is rustc's own.
        for error in shown.split("\n\n").filter(|block| block.starts_with("error: ")) {
            let underlined = error.lines().nth(3).unwrap_or_default();
            let is_whole = ["#[derive(", "#[handler]"].iter().any(|whole| underlined.contains(whole));
            assert!(!is_whole || error.contains("future"), "{}:\n{error}", case.display());
        }
    }
}

/// The cases of one macro.
fn cases(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui").join(name).join("fail");
    let files = fs::read_dir(folder).expect("every macro has cases");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    assert!(files.len() > 40, "{name} has {} cases", files.len());
    files.sort();
    files
}

fn first_line(case: &Path) -> String {
    let source = fs::read_to_string(case).expect("the case is there");
    source.lines().next().unwrap_or_default().to_owned()
}
