//! What `deploy/` and the operator's guide say holds of this binary: options are there, places and ports agree, and the unit's command line does what its
//! `Type` promises.

mod common;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{PASSWORD, Server, run};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a command of the binary says of its options.
fn help(command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(command).arg("--help").output();
    let output = output.expect("the binary can be run");
    assert!(output.status.success(), "rowhouse {command:?} is no command");
    String::from_utf8(output.stdout).expect("help is text")
}

fn has_option(help: &str, option: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-');
    help.match_indices(option).any(|(at, found)| is_end(&help[at + found.len()..]))
}

/// The value of a key of a unit, which is there once.
fn unit_value<'u>(unit: &'u str, key: &str) -> &'u str {
    let values: Vec<&str> =
        unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect();
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values[0]
}

/// What stands behind an instruction of a Dockerfile, the last one of its kind.
fn instruction<'d>(dockerfile: &'d str, name: &str) -> &'d str {
    let found = dockerfile.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).last();
    found.unwrap_or_else(|| panic!("no {name}"))
}

fn option_of<'w>(words: &[&'w str], option: &str) -> &'w str {
    let at = words.iter().position(|word| *word == option).unwrap_or_else(|| panic!("no {option}"));
    words[at + 1]
}

#[test]
fn the_units_command_line_serves_and_says_when() {
    let unit = file("deploy/systemd/rowhouse.service");
    assert_eq!(unit_value(&unit, "Type"), "notify");
    let state = format!("/var/lib/{}", unit_value(&unit, "StateDirectory"));
    let command: Vec<&str> = unit_value(&unit, "ExecStart").split(' ').collect();
    assert_eq!(command[..2], ["/usr/local/bin/rowhouse", "serve"]);
    assert_eq!(option_of(&command, "--data"), state);
    assert_eq!(command.last(), Some(&"$ROWHOUSE_OPTIONS"));
    // As systemd runs it, in a directory and on ports of the test's.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let notify = dir.path().join("notify");
    let socket = UnixDatagram::bind(&notify).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout can be set");
    let listening = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listening.local_addr().expect("an address").to_string();
    drop(listening);
    let options = format!("--listen {address} --no-admin --workers 1");
    let words = command[1..].iter().flat_map(|word| match *word {
        "$ROWHOUSE_OPTIONS" => options.split(' ').map(PathBuf::from).collect(),
        word if word == state => vec![dir.path().join("data")],
        word => vec![PathBuf::from(word)],
    });
    let mut server = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(words)
        .env("NOTIFY_SOCKET", &notify)
        .env("ROWHOUSE_ADMIN_PASSWORD", PASSWORD)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the server's binary can be run");
    let mut message = [0; 64];
    let heard = socket.recv(&mut message).map(|len| message[..len].to_vec());
    // No waiting in between: who is told may connect.
    let is_open = std::net::TcpStream::connect(&address).is_ok();
    assert_eq!(unit_value(&unit, "KillSignal"), "SIGTERM");
    let killed = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    let status = server.wait().expect("the server can be waited for");
    assert_eq!(heard.expect("the supervisor is told"), b"READY=1");
    assert!(is_open && killed.is_ok_and(|killed| killed.success()));
    assert!(status.success(), "it ends in order: {status}");
}

#[test]
fn the_image_runs_what_there_is_where_it_says() {
    let dockerfile = file("deploy/Dockerfile");
    let entry: Vec<String> =
        serde_json::from_str(instruction(&dockerfile, "ENTRYPOINT")).expect("a list of words");
    let entry: Vec<&str> = entry.iter().map(String::as_str).collect();
    assert_eq!(entry[..2], ["rowhouse", "serve"]);
    let serve = help(&["serve"]);
    for option in entry.iter().filter(|word| word.starts_with("--")) {
        assert!(has_option(&serve, option), "{option}");
    }
    let ports: Vec<&str> = ["--listen", "--admin-listen"]
        .map(|option| option_of(&entry, option).rsplit(':').next().expect("a port"))
        .to_vec();
    assert_eq!(instruction(&dockerfile, "EXPOSE").split(' ').collect::<Vec<_>>(), ports);
    for port in &ports {
        assert!(serve.contains(&format!("127.0.0.1:{port}")), "{port} is the default");
    }
    let data = option_of(&entry, "--data");
    assert_eq!(instruction(&dockerfile, "VOLUME"), data);
    let user = instruction(&dockerfile, "USER");
    let told = dockerfile.replace("\\\n", " ");
    let makes = told.lines().find(|line| line.contains("useradd")).expect("the user is made");
    assert!(makes.contains(&format!("--home-dir {data} --no-create-home")), "{makes}");
    assert!(makes.contains(&format!("/nologin {user} ")), "{makes}");
    assert!(makes.ends_with(&format!("install -d -o {user} -g {user} -m 0700 {data}")), "{makes}");
    assert!(dockerfile.contains("COPY --from=build /source/target/release/rowhouse /usr/local/bin/rowhouse"));
    let manifest = file("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a version");
    assert!(dockerfile.contains(&format!("FROM rust:{}-", version.trim_matches('"'))), "{version}");
}

/// Lines of the blocks of a page that are for a shell, those that go on put together.
fn shell_lines(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut is_shell, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            (is_shell, goes_on) = (line == "```sh", false);
        } else if is_shell {
            let (text, more) = line.strip_suffix('\\').map_or((line, false), |text| (text, true));
            if goes_on {
                lines.last_mut().map(|last: &mut String| last.push_str(text)).expect("a line before");
            } else {
                lines.push(text.to_owned());
            }
            goes_on = more;
        }
    }
    lines
}

#[test]
fn the_guides_commands_are_there_with_their_options() {
    let page = file("docs/operating.md");
    let mut checked = 0;
    for line in shell_lines(&page) {
        for part in line.split(['|', '&', ';']) {
            let words: Vec<&str> = part.split_whitespace().take_while(|word| *word != "#").collect();
            let Some(at) = words.iter().rposition(|word| *word == "rowhouse" || word.ends_with("/rowhouse"))
            else {
                continue;
            };
            let Some(command) =
                words.get(at + 1).filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
            else {
                continue;
            };
            // Words of a unit's name or the image's are not commands of the binary.
            if words[..at].iter().any(|word| matches!(*word, "systemctl" | "journalctl")) {
                continue;
            }
            let help = help(&[command]);
            for option in
                words[at + 2..].iter().filter_map(|word| word.trim_start_matches('[').strip_prefix("--"))
            {
                let name = option.split(['=', ']']).next().expect("a name");
                assert!(name.is_empty() || has_option(&help, &format!("--{name}")), "{line}: --{name}");
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}

/// The block of a page's shell commands that has `word`.
fn shell_block<'p>(page: &'p str, word: &str) -> &'p str {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().expect("a block"));
    let found: Vec<&str> = blocks.filter(|block| block.contains(word)).collect();
    assert_eq!(found.len(), 1, "{word}: {found:?}");
    found[0]
}

/// Those of tenants that nobody used since the start too, each under a name of its own; and a list that cannot be had is an error.
#[test]
fn the_guides_nightly_backup_is_of_all_tenants() {
    let names = ["acme", "a/b", "a_b", "a%2Fb", "two words"];
    let mut server = Server::start();
    run(async {
        for name in names {
            server.admin().await.batch_execute(&format!("CREATE TENANT \"{name}\"")).await.expect("a tenant");
        }
    });
    assert!(server.terminate().success());
    server.restart();
    let backups = tempfile::tempdir().expect("a temporary directory");
    let page = file("docs/operating.md");
    let script = |url: &str| {
        let script = shell_block(&page, "datname");
        let script = script.replace("postgres://admin:secret@127.0.0.1:5433/rowhouse", url);
        let script = script.replace("\"/backups/", &format!("\"{}/", backups.path().display()));
        let binary = Path::new(env!("CARGO_BIN_EXE_rowhouse")).parent().expect("a folder").to_owned();
        let psql = PathBuf::from(common::tool("psql").get_program())
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default();
        let path = std::env::var("PATH").expect("a path");
        Command::new("bash")
            .args(["-c", &script])
            .env("PATH", format!("{}:{}:{path}", binary.display(), psql.display()))
            .output()
            .expect("bash runs")
    };
    let made = script(&server.url("admin", "rowhouse"));
    assert!(made.status.success(), "{}", common::said(&made));
    let of = |entry: std::io::Result<fs::DirEntry>| {
        let checked = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
            .args(["verify-backup", "--json"])
            .arg(entry.expect("an entry").path())
            .output()
            .expect("the binary can be run");
        let report: serde_json::Value = serde_json::from_slice(&checked.stdout).expect("a report");
        report["backup_of"].as_str().expect("a name").to_owned()
    };
    let mut found: Vec<String> = fs::read_dir(backups.path()).expect("a folder").map(of).collect();
    found.sort();
    let mut names = names.to_vec();
    names.sort_unstable();
    assert_eq!(found, names);
    let refused = script(&server.url("admin", "rowhouse").replace(PASSWORD, "wrong"));
    assert!(!refused.status.success(), "{}", common::said(&refused));
}

#[test]
fn the_guide_names_the_places_of_the_unit_and_the_image() {
    let page = file("docs/operating.md");
    let unit = file("deploy/systemd/rowhouse.service");
    for place in ["/usr/local/bin/rowhouse", "/var/lib/rowhouse", "/etc/rowhouse/environment"] {
        assert!(page.contains(place) && unit.contains(place.trim_start_matches("/var/lib/")), "{place}");
    }
    for told in [
        "ROWHOUSE_ADMIN_PASSWORD",
        "ROWHOUSE_OPTIONS",
        "deploy/systemd/rowhouse.service",
        "deploy/Dockerfile",
    ] {
        assert!(page.contains(told), "{told}");
    }
}
