//! The browser of the desktop that the demo is started from. Whoever has none goes to the address that is printed.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Where a desktop's programs find its screen.
const SCREENS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// Opens `address` in the desktop's browser if somebody sits before a terminal of a desktop. Does not wait for it, nor for anything to come of it.
pub(super) fn open(address: &str) {
    let has_screen = SCREENS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !has_screen || !std::io::stdout().is_terminal() {
        return;
    }
    // The shell starts it behind itself and ends. In a group of its own: the Ctrl-C that ends the demo is not for the browser.
    let mut shell = Command::new("sh");
    shell.args(["-c", "xdg-open \"$0\" &", address]).process_group(0);
    let _ = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
