//! A client's byte stream, plain or under TLS, on whatever reactor polls it.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use env::Socket;
use sql::session::TlsRow;

use crate::executor;

/// Ciphertext held back before it is sent.
const TLS_PIECE_LEN: usize = 64 << 10;
/// Longest piece that goes out unwatched: so much of what a client does not take is with its socket and not counted. The answers to a batch of some
/// twenty statements take 5 KiB.
const SEND_SOON_LEN_MAX: usize = 8 << 10;
/// Capacity for ciphertext that a session keeps between two sends.
const TLS_KEPT_CAPACITY_MAX: usize = 1 << 10;

/// A connection to a client. Dropping it closes the connection.
pub(crate) struct Stream {
    socket: Socket,
    peer: SocketAddr,
    tls: Option<Box<Tls>>,
}

struct Tls {
    connection: rustls::ServerConnection,
    /// What was given to be sent, of which `clear_at` bytes are encrypted. Goes out before anything else, whoever waits for it.
    clear: Vec<u8>,
    clear_at: usize,
    /// Ciphertext that was not yet given to the socket.
    unsent: Vec<u8>,
    ended: bool,
    /// What was decrypted and not given out yet. rustls itself holds no more than 16 kB of it and fails beyond.
    plain: Vec<u8>,
}

fn tls_error(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Stream {
    pub(crate) fn new(socket: Socket, peer: SocketAddr) -> Stream {
        Stream { socket, peer, tls: None }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// How the connection is encrypted, if it is.
    pub(crate) fn encryption(&self) -> Option<TlsRow> {
        let connection = &self.tls.as_ref()?.connection;
        let suite = connection.negotiated_cipher_suite()?.suite().as_str()?.to_owned();
        let version = match connection.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLS",
        };
        let bits = if suite.contains("AES_128") { 128 } else { 256 };
        // PostgreSQL shows OpenSSL's names, which begin the suites of TLS 1.3 with TLS.
        let cipher = suite.replacen("TLS13_", "TLS_", 1);
        Some(TlsRow { version: version.to_owned(), cipher, bits })
    }

    /// Does the server's half of a TLS handshake; everything after it is encrypted.
    ///
    /// # Errors
    /// The client went away or does not speak TLS.
    pub(crate) async fn accept_tls(&mut self, config: Arc<rustls::ServerConfig>) -> io::Result<()> {
        let mut connection = rustls::ServerConnection::new(config).map_err(tls_error)?;
        connection.set_buffer_limit(None);
        let mut tls = Tls {
            connection,
            clear: Vec::new(),
            clear_at: 0,
            unsent: Vec::new(),
            ended: false,
            plain: Vec::new(),
        };
        while tls.connection.is_handshaking() {
            let outcome = tls.take_in(&self.socket).await;
            // The alert that tells the client why is worth an attempt.
            let sent = tls.send_out(&self.socket).await;
            if outcome? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sent?;
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// Appends what arrives next to `buf`; 0 bytes at the end of the stream. Dropped unfinished, the bytes already in
    /// `buf` are lost: drop it only to end the session.
    pub(crate) async fn recv(&mut self, mut buf: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let Some(tls) = &mut self.tls else { return self.socket.recv(buf).await };
        loop {
            if !tls.plain.is_empty() || tls.ended {
                let n = tls.plain.len();
                // Its memory goes, too: the session may be idle from here on.
                buf.append(&mut std::mem::take(&mut tls.plain));
                return (Ok(n), buf);
            }
            match tls.take_in(&self.socket).await {
                Ok(0) => tls.ended = true,
                Ok(_) => {}
                Err(error) => return (Err(error), buf),
            }
            if tls.connection.wants_write()
                && let Err(error) = tls.send_out(&self.socket).await
            {
                return (Err(error), buf);
            }
        }
    }

    /// Has a small piece sent without anybody waiting for it, and empties `buf`; false if it must be waited for, with
    /// [`Stream::send`] and what is left in `buf`.
    #[inline]
    pub(crate) fn send_soon(&mut self, buf: &mut Vec<u8>) -> io::Result<bool> {
        if buf.len() > SEND_SOON_LEN_MAX {
            return Ok(false);
        }
        match &mut self.tls {
            None => self.socket.send_soon(buf),
            Some(tls) => tls.send_soon(&self.socket, buf),
        }
    }

    /// Waits until everything given to [`Stream::send_soon`] and [`Stream::send`] has left.
    pub(crate) async fn sent(&mut self) {
        if let Some(tls) = &mut self.tls {
            // An error will be met again by whoever uses the stream next.
            let _ = tls.send_clear(&self.socket).await;
        }
        self.socket.sent().await;
    }

    /// Sends all of `buf` and gives it back emptied. Dropped unfinished, what has begun to be sent is sent whole, before what is
    /// given next.
    pub(crate) async fn send(&mut self, mut buf: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let Some(tls) = &mut self.tls else {
            executor::note_sent(buf.len());
            return self.socket.send(buf).await;
        };
        if tls.clear.is_empty() {
            (tls.clear, tls.clear_at) = (buf, 0);
        } else {
            tls.clear.append(&mut buf);
        }
        // A piece to be sent soon may have left its ciphertext.
        let outcome = tls.send_clear(&self.socket).await;
        (outcome, std::mem::take(&mut tls.clear))
    }

    /// Tells a TLS client that nothing follows, and closes the sending half.
    pub(crate) async fn finish(&mut self) {
        if let Some(tls) = &mut self.tls
            && tls.send_clear(&self.socket).await.is_ok()
        {
            tls.connection.send_close_notify();
            let _ = tls.send_out(&self.socket).await;
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Waits until no operation is in flight: the stream may then move to another thread.
    pub(crate) async fn quiesce(&self) {
        self.socket.quiesce().await;
    }
}

impl Tls {
    /// As [`Stream::send_soon`]. What was encrypted and is not being sent is kept, and goes out before what is encrypted next.
    fn send_soon(&mut self, socket: &Socket, buf: &mut Vec<u8>) -> io::Result<bool> {
        if !self.clear.is_empty() || self.connection.wants_write() || !self.unsent.is_empty() {
            return Ok(false);
        }
        self.connection.writer().write_all(buf)?;
        buf.clear();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.unsent)?;
        }
        socket.send_soon(&mut self.unsent)
    }

    /// Receives ciphertext and decrypts it; 0 at the end of the stream.
    async fn take_in(&mut self, socket: &Socket) -> io::Result<usize> {
        let (received, bytes) = socket.recv(Vec::new()).await;
        let n = received?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            if self.connection.read_tls(&mut rest)? == 0 {
                break;
            }
            self.connection.process_new_packets().map_err(tls_error)?;
            self.drain()?;
        }
        Ok(n)
    }

    /// Encrypts and sends what was given, piece by piece, and leaves `clear` empty. Dropped unfinished, it is gone on with by the
    /// next call.
    async fn send_clear(&mut self, socket: &Socket) -> io::Result<()> {
        self.send_out(socket).await?;
        while self.clear_at < self.clear.len() {
            let piece_end = self.clear.len().min(self.clear_at + TLS_PIECE_LEN);
            self.connection.writer().write_all(&self.clear[self.clear_at..piece_end])?;
            self.clear_at = piece_end;
            self.send_out(socket).await?;
            // Each piece may have been sent without a wait.
            if executor::poll_elapsed() >= executor::TURN_MAX {
                executor::yield_now().await;
            }
        }
        self.clear.clear();
        self.clear_at = 0;
        Ok(())
    }

    /// Sends what is encrypted. Dropped unfinished, none of it is lost: it is here until the socket has it.
    async fn send_out(&mut self, socket: &Socket) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.unsent)?;
        }
        if self.unsent.is_empty() {
            return Ok(());
        }
        // With nothing in flight the send below begins at its first poll.
        socket.sent().await;
        executor::note_sent(self.unsent.len());
        let (outcome, out) = socket.send(std::mem::take(&mut self.unsent)).await;
        if out.capacity() <= TLS_KEPT_CAPACITY_MAX {
            self.unsent = out;
        }
        outcome
    }

    /// Takes what was decrypted out of rustls.
    fn drain(&mut self) -> io::Result<()> {
        let mut piece = [0; 4096];
        loop {
            match self.connection.reader().read(&mut piece) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => self.plain.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The peer closed without saying so; for a database session that is an end like any other.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
