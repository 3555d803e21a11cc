//! What a hostile tenant does: its clients may log in, and want as much as they can have of everything.

use std::time::Duration;

use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Result;
use crate::sqlvm::careless::{Careless, Refused, code_of, connected};
use crate::sqlvm::host::Host;

/// The hostile tenant, and its owner.
pub(super) const HOSTILE: &str = "hostile";
pub(super) const PASSWORD: &str = "hostile";
/// Clients of an attack by statements; fewer where each makes values of hundreds of MB.
const CLIENTS: usize = 8;
const GIANTS: usize = 2;
/// Clients that begin to log in and leave, such that open a socket and say nothing for a second, and such that guess passwords.
const BEGINNERS: usize = 16;
const SILENT: usize = 64;
const GUESSERS: usize = 2;
const SILENCE: Duration = Duration::from_secs(1);

/// A kind of attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attack {
    Sorts,
    Hashes,
    GiantValues,
    Connections,
    EndlessStatements,
    UnreadResults,
    /// All of them at once.
    Everything,
}

impl Attack {
    pub(super) const ALL: [Attack; 7] = [
        Attack::Sorts,
        Attack::Hashes,
        Attack::GiantValues,
        Attack::Connections,
        Attack::EndlessStatements,
        Attack::UnreadResults,
        Attack::Everything,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Attack::Sorts => "huge sorts",
            Attack::Hashes => "huge hashes",
            Attack::GiantValues => "giant values",
            Attack::Connections => "floods of connections",
            Attack::EndlessStatements => "endless statements",
            Attack::UnreadResults => "huge results not read",
            Attack::Everything => "all at once",
        }
    }

    /// Clients of the hostile tenant at this kind of work.
    pub(super) fn begin(self, host: &Host) -> Result<Careless> {
        let mut clients = Careless::default();
        self.add_to(&mut clients, host)?;
        Ok(clients)
    }

    fn add_to(self, clients: &mut Careless, host: &Host) -> Result<()> {
        let server = host.ours()?;
        let url = server.url_of(HOSTILE, PASSWORD, HOSTILE);
        match self {
            Attack::Sorts | Attack::Hashes | Attack::GiantValues | Attack::EndlessStatements => {
                let (statements, count) = self.statements();
                for client in 0..count {
                    // Each begins with another one.
                    let turned =
                        statements.iter().cycle().skip(client % statements.len()).take(statements.len());
                    clients.add_statements(&url, &turned.copied().collect::<Vec<_>>());
                }
            }
            Attack::Connections => {
                (0..BEGINNERS).for_each(|_| add_beginner(clients, server.address()));
                (0..SILENT).for_each(|_| add_silent(clients, server.address()));
                (0..GUESSERS).for_each(|_| add_guesser(clients, server.address()));
            }
            Attack::UnreadResults => (0..CLIENTS).for_each(|_| add_reader_of_nothing(clients, &url)),
            Attack::Everything => {
                for attack in Attack::ALL.into_iter().filter(|attack| *attack != Attack::Everything) {
                    attack.add_to(clients, host)?;
                }
            }
        }
        Ok(())
    }

    /// What clients run in turn, and how many do.
    fn statements(self) -> (&'static [&'static str], usize) {
        match self {
            Attack::Sorts => (
                &[
                    "select max(r) from (select row_number() over (order by a.filler, b.id) r from cpuio a, cpuio b where b.id <= 100) s",
                    "select max(r) from (select row_number() over (order by filler desc, id) r from cpuio) s",
                ],
                CLIENTS,
            ),
            Attack::Hashes => (
                &[
                    "select count(*) from (select a.filler, b.id, count(*) c from cpuio a, cpuio b where b.id <= 100 group by a.filler, b.id) s",
                    "select count(*) from cpuio a join cpuio b on a.filler = b.filler join cpuio c on b.filler = c.filler",
                ],
                CLIENTS,
            ),
            Attack::GiantValues => (
                &[
                    "select length(repeat('x', 200000000))",
                    "select length(string_agg(filler, '')) from cpuio",
                    "select array_length(array_agg(repeat(filler, 100)), 1) from cpuio",
                ],
                GIANTS,
            ),
            Attack::EndlessStatements => (
                &[
                    "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
                    "select count(*) from cpuio a, cpuio b, cpuio c where a.amount + b.amount = c.amount",
                    "select count(*) from generate_series(1, 1000000000000) i where i % 2 = 0",
                ],
                CLIENTS,
            ),
            Attack::Connections | Attack::UnreadResults | Attack::Everything => (&[], 0),
        }
    }
}

/// The first message of a client that wants to log in to a database.
fn start_up(role: &str, database: &str) -> Vec<u8> {
    const PROTOCOL: u32 = 196_608;
    let body = format!("user\0{role}\0database\0{database}\0\0");
    let length = u32::try_from(body.len() + 8).expect("names are short");
    [&length.to_be_bytes()[..], &PROTOCOL.to_be_bytes(), body.as_bytes()].concat()
}

/// Says who it is, waits for the server to ask for the password, and leaves.
fn add_beginner(clients: &mut Careless, address: &str) {
    let address = address.to_owned();
    clients.add(async move |ended| {
        let begun = async {
            let mut socket = TcpStream::connect(&address).await?;
            socket.write_all(&start_up(HOSTILE, HOSTILE)).await?;
            socket.read_u8().await
        };
        begun.await.map_err(|_| no_answer())?;
        ended.borrow_mut().done += 1;
        Ok(())
    });
}

/// Answers what the server asks of who knows the password, by a proof that is none. To work out that of a wrong one takes a millisecond, in which no client of
/// the others, who are on the same thread, would have a turn.
fn add_guesser(clients: &mut Careless, address: &str) {
    let address = address.to_owned();
    clients.add(async move |_| {
        let refused = async {
            let mut socket = TcpStream::connect(&address).await?;
            socket.write_all(&start_up(HOSTILE, HOSTILE)).await?;
            read_message(&mut socket).await?;
            socket.write_all(&first_words()).await?;
            let challenge = read_message(&mut socket).await?;
            socket.write_all(&no_proof(&challenge)).await?;
            read_message(&mut socket).await
        };
        Err(told_code(&refused.await.map_err(|_| no_answer())?))
    });
}

/// What a message of the server says, without its kind and its length.
async fn read_message(socket: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    socket.read_u8().await?;
    let length = socket.read_u32().await?;
    let mut body = vec![0; length.saturating_sub(4) as usize];
    socket.read_exact(&mut body).await?;
    Ok(body)
}

/// A client's message of a login by SCRAM-SHA-256.
fn login_message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a login is short");
    [&b"p"[..], &length.to_be_bytes()[..], body].concat()
}

fn first_words() -> Vec<u8> {
    const FIRST: &[u8] = b"n,,n=,r=guessed";
    let length = u32::try_from(FIRST.len()).expect("it is short");
    login_message(&[&b"SCRAM-SHA-256\0"[..], &length.to_be_bytes()[..], FIRST].concat())
}

/// Answers a challenge (`r=NONCE,s=SALT,i=4096` behind four bytes) by 32 bytes of zeroes.
fn no_proof(challenge: &[u8]) -> Vec<u8> {
    let said = String::from_utf8_lossy(challenge.get(4..).unwrap_or_default());
    let nonce = said.split(',').next().unwrap_or_default();
    login_message(format!("c=biws,{nonce},p={}=", "A".repeat(43)).as_bytes())
}

/// The SQLSTATE in an error of the server.
fn told_code(error: &[u8]) -> Refused {
    let code = error.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"C"));
    code.map_or_else(no_answer, |code| String::from_utf8_lossy(code).into_owned())
}

/// Opens a socket, says nothing for a while, and leaves.
fn add_silent(clients: &mut Careless, address: &str) {
    let address = address.to_owned();
    clients.add(async move |ended| {
        let _socket = TcpStream::connect(&address).await.map_err(|_| no_answer())?;
        tokio::time::sleep(SILENCE).await;
        ended.borrow_mut().done += 1;
        Ok(())
    });
}

fn no_answer() -> Refused {
    "no answer".into()
}

/// Asks for a result that would never end, and reads its first row only; done is that it came.
fn add_reader_of_nothing(clients: &mut Careless, url: &str) {
    const ROWS: &str = "select a.*, b.id from cpuio a, cpuio b";
    let url = url.to_owned();
    clients.add(async move |ended| {
        connected(&url, async |client| {
            let rows = client.simple_query_raw(ROWS).await.map_err(|error| code_of(&error))?;
            let mut rows = std::pin::pin!(rows);
            if let Some(Err(error)) = rows.next().await {
                return Err(code_of(&error));
            }
            ended.borrow_mut().done += 1;
            // What was sent stays in the sockets, and the rest in the server.
            std::future::pending().await
        })
        .await
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_begins_by_its_length_and_its_name() {
        let said = start_up("a", "bc");
        assert_eq!(said, b"\0\0\0\x1c\0\x03\0\0user\0a\0database\0bc\0\0");
        assert_eq!(said.len(), 0x1c);
    }

    #[test]
    fn a_guess_takes_up_the_servers_nonce_and_proves_nothing() {
        assert_eq!(first_words(), b"p\0\0\0\x25SCRAM-SHA-256\0\0\0\0\x0fn,,n=,r=guessed");
        let guess = no_proof(b"\0\0\0\x0br=guessedXYZ,s=c2FsdA==,i=4096");
        assert_eq!(guess[..5], *b"p\0\0\0\x46");
        assert_eq!(guess[5..31], *b"c=biws,r=guessedXYZ,p=AAAA");
        assert_eq!((guess.len(), guess.last()), (0x47, Some(&b'=')));
        assert_eq!(told_code(b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0"), "28P01");
        assert_eq!(told_code(b""), "no answer");
    }

    /// Beside a server of a few words.
    #[tokio::test(flavor = "current_thread")]
    async fn a_guesser_is_refused_by_the_code_that_it_is_told() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let local = tokio::task::LocalSet::new();
        let found = local.run_until(async {
            let mut clients = Careless::default();
            add_guesser(&mut clients, &address);
            let (mut server, _) = listener.accept().await.expect("it comes");
            let mut start = vec![0; start_up(HOSTILE, HOSTILE).len()];
            server.read_exact(&mut start).await.expect("its start");
            server.write_all(b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0").await.expect("it listens");
            read_message(&mut server).await.expect("its first words");
            server.write_all(b"R\0\0\0\x1d\0\0\0\x0br=guessedX,s=YQ==,i=1").await.expect("it listens");
            let guess = read_message(&mut server).await.expect("its guess");
            assert!(guess.starts_with(b"c=biws,r=guessedX,p="));
            server.write_all(b"E\0\0\0\x0cC28P01\0\0").await.expect("it listens");
            while clients.ended().attempts() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            clients.ended()
        });
        assert_eq!(found.await.words(), "0 done, 1 refused (28P01: 1)");
    }
}
