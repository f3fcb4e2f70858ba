//! Expansions as text that can be compared: not formatted, but with a line for each statement, item and arm.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

pub(crate) fn lines(tokens: &TokenStream) -> String {
    let mut text = String::new();
    write(tokens, 0, true, &mut text);
    text
}

fn write(tokens: &TokenStream, depth: usize, in_braces: bool, text: &mut String) {
    for token in tokens.clone() {
        if text.is_empty() || text.ends_with('\n') {
            text.push_str(&"    ".repeat(depth));
        }
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                text.push_str(if text.ends_with(' ') { "{\n" } else { " {\n" });
                write(&group.stream(), depth + 1, true, text);
                text.push_str(&format!("{}}}\n", "    ".repeat(depth)));
            }
            TokenTree::Group(group) => {
                let (open, close) =
                    if group.delimiter() == Delimiter::Bracket { ('[', "]") } else { ('(', ")") };
                text.push(open);
                write(&group.stream(), depth, false, text);
                text.truncate(text.trim_end_matches('\n').len());
                text.push_str(close);
            }
            TokenTree::Punct(punct) if ",;".contains(punct.as_char()) => {
                // A semicolon after a brace goes with it.
                let open_line = text.trim_end_matches([' ', '\n']).len();
                text.truncate(open_line);
                text.push(punct.as_char());
                text.push(if in_braces { '\n' } else { ' ' });
            }
            TokenTree::Punct(punct) => {
                let sign = punct.as_char();
                let begins = "=-".contains(sign) && !text.ends_with(' ');
                let ends = match sign {
                    '=' => punct.spacing() == Spacing::Alone,
                    '>' => text.ends_with(['=', '-']),
                    ':' => punct.spacing() == Spacing::Alone && !text.ends_with(':'),
                    _ => false,
                };
                text.push_str(if begins { " " } else { "" });
                text.push(sign);
                text.push_str(if ends { " " } else { "" });
            }
            word => {
                let touches_word =
                    text.ends_with(|last: char| last.is_alphanumeric() || "])_\"".contains(last));
                text.push_str(if touches_word { " " } else { "" });
                text.push_str(&word.to_string());
            }
        }
    }
    if !text.ends_with(['\n', ' ']) && in_braces {
        text.push('\n');
    }
}
