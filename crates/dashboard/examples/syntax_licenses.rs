//! Prints the licenses of the syntax definitions with which the dashboard highlights code. `scripts/notices.py` adds
//! them to the third-party notices.

#[expect(clippy::print_stdout, reason = "the purpose of this program")]
fn main() {
    for license in two_face::acknowledgement::listing().for_syntaxes() {
        if license.needs_acknowledgement() {
            println!("{}\n\n{}\n", license.rel_path.display(), license.text);
        }
    }
}
