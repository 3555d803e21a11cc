//! Making a tenant of an image: a backup that a client sends, or another tenant.
//!
//! A task of the new tenant at its home takes the pieces, checks every slot, makes it the new tenant's and writes it. It
//! owns the clean-up too: whoever began it may go away at any time.

use std::convert::Infallible;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, SqlError, SqlResult, SqlState, TenantId};
use env::IoBuf;
use futures::SinkExt;
use futures::channel::{mpsc, oneshot};
use futures::future::{Either, select};
use futures::stream::StreamExt;
use governor::{OptionError, PromiseOptions};
use storage::{Corrupt, IMAGE_HEAD_LEN, ImageFile, ImageReader};
use tenant::{Description, OpenError};

use super::copying::{self, Pieces};
use super::promises::{self, Beginnings};
use super::{Home, Subject, file_failed, making, statements};
use crate::data_dir::DEFAULT_VOLUME;
use crate::executor::yield_now;
use crate::placement;
use crate::shared::Shared;

/// Pieces received and not written: 1 MiB.
const PIECES_MAX: usize = 4;
/// Bytes of a client's piece, whole slots.
const PIECE_LEN: usize = 32 * PAGE_SIZE;
const _: () = assert!(PIECE_LEN.is_multiple_of(PAGE_SIZE) && PIECE_LEN > IMAGE_HEAD_LEN);

/// What an image is called in reports where it has no name of its own.
const SOURCE: &str = "backup";

/// A tenant being made. Dropped before its end, what was made is removed.
pub(crate) struct Restoring {
    outcome: oneshot::Receiver<SqlResult<()>>,
    /// While it is there somebody wants the tenant.
    wanted: Option<oneshot::Sender<Infallible>>,
    /// Where a client's data goes, until their end.
    to: Option<mpsc::Sender<Sent>>,
    /// Data that make no piece yet.
    gathered: Vec<u8>,
}

/// Ends when nobody wants the tenant any more.
type GivenUp = oneshot::Receiver<Infallible>;

/// What a client sent.
enum Sent {
    Piece(IoBuf),
    End,
}

/// Where the pieces come from.
enum Source {
    Client(mpsc::Receiver<Sent>),
    Template(Pieces),
}

impl Source {
    /// The next piece; `None` at the image's end, which may be early. Not waited for once the tenant is given up: a template that is being opened,
    /// or that its own limits hold, may take minutes for one.
    async fn next(&mut self, given_up: &mut GivenUp) -> SqlResult<Option<IoBuf>> {
        match self {
            Source::Template(pieces) => match select(pin!(pieces.next()), given_up).await {
                Either::Left((piece, _)) => piece,
                Either::Right(_) => Err(abandoned()),
            },
            Source::Client(from) => match from.next().await {
                Some(Sent::Piece(piece)) => Ok(Some(piece)),
                Some(Sent::End) => Ok(None),
                None => Err(abandoned()),
            },
        }
    }
}

fn abandoned() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "making the tenant was given up")
}

impl Restoring {
    /// Takes data of the image; true if there is enough to [`Restoring::send`].
    pub(crate) fn push(&mut self, data: &[u8]) -> bool {
        self.gathered.extend_from_slice(data);
        self.gathered.len() >= PIECE_LEN
    }

    /// Passes on what makes whole pieces, or at the `end` everything. Waits while too much is on its way.
    ///
    /// # Errors
    /// The tenant cannot be made.
    pub(crate) async fn send(&mut self, end: bool) -> SqlResult<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let whole = if end { gathered.len() } else { gathered.len() - gathered.len() % PIECE_LEN };
        for piece in gathered[..whole].chunks(PIECE_LEN) {
            self.pass(Sent::Piece(IoBuf::copy_of(piece))).await?;
        }
        self.gathered.extend_from_slice(&gathered[whole..]);
        if end {
            self.pass(Sent::End).await?;
            self.to = None;
        }
        Ok(())
    }

    async fn pass(&mut self, what: Sent) -> SqlResult<()> {
        if let Some(to) = &mut self.to
            && to.send(what).await.is_ok()
        {
            return Ok(());
        }
        // Only a task that has failed takes nothing any more.
        self.outcome().await.and_then(|()| Err(SqlError::internal("more data than the image has")))
    }

    /// How it ended, once it has.
    ///
    /// # Errors
    /// The tenant was not made, and nothing is left of it.
    pub(crate) async fn outcome(&mut self) -> SqlResult<()> {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            Err(oneshot::Canceled) => Err(SqlError::internal("making the tenant did not finish")),
        }
    }

    /// Gives it up and waits until nothing is left of it; `Ok` if the tenant was made all the same.
    ///
    /// # Errors
    /// The tenant was not made.
    pub(crate) async fn give_up(mut self) -> SqlResult<()> {
        drop(self.wanted.take());
        self.to = None;
        self.outcome().await
    }
}

/// Makes a tenant of the backup that a client is about to send, named `name` or as the backup says.
///
/// # Errors
/// 42P04 or 42602 for the name, where it is given.
pub(crate) fn from_client(
    shared: &Arc<Shared>,
    name: Option<String>,
    with: Vec<(String, String)>,
) -> SqlResult<Restoring> {
    if let Some(name) = &name {
        statements::check_name(shared, name)?;
    }
    let begins =
        Beginnings { volume: DEFAULT_VOLUME.to_owned(), size: None, options: PromiseOptions::default() };
    let (to, from) = mpsc::channel(PIECES_MAX);
    start(shared, Source::Client(from), Some(to), NewTenant { name, begins, with })
}

/// Makes the tenant `name` a copy of another one as it is now.
///
/// # Errors
/// 42P04 or 42602 for the name, 3D000 for the template.
pub(crate) fn from_template(
    shared: &Arc<Shared>,
    name: String,
    template: &str,
    with: Vec<(String, String)>,
) -> SqlResult<Restoring> {
    statements::check_name(shared, &name)?;
    let row = statements::existing(shared, template)?.row();
    let begins = Beginnings { volume: row.volume, size: row.size, options: row.options };
    let pieces = copying::begin(shared, template)?;
    start(shared, Source::Template(pieces), None, NewTenant { name: Some(name), begins, with })
}

/// What the statement says of the tenant to be made.
struct NewTenant {
    /// `None`: the one in the backup.
    name: Option<String>,
    /// But for the options of a backup, which come with it.
    begins: Beginnings,
    with: Vec<(String, String)>,
}

fn start(
    shared: &Arc<Shared>,
    source: Source,
    to: Option<mpsc::Sender<Sent>>,
    new: NewTenant,
) -> SqlResult<Restoring> {
    // What WITH says is checked before anything is made.
    let row = promises::new_row(shared, String::new(), new.begins.clone(), &new.with)?.0;
    let volume = row.volume;
    let id = shared.tenants.new_id();
    let home = placement::found(shared, id, &volume, &row.promise)?;
    let at_home = home.clone();
    let (tell, outcome) = oneshot::channel();
    let (wanted, given_up) = oneshot::channel();
    let task_shared = shared.clone();
    let task = async move {
        let making = Making { shared: task_shared.clone(), home, source, given_up };
        let made = making.run(new).await;
        if let Err(error) = &made {
            tracing::info!(tenant = id.0, %error, "a tenant was not made of an image");
            making::forget(&task_shared, id);
        }
        // Whoever asked may be gone.
        let _ = tell.send(made);
    };
    at_home.spawn(task).detach();
    Ok(Restoring { outcome, wanted: Some(wanted), to, gathered: Vec::new() })
}

/// The task that makes the tenant.
struct Making {
    shared: Arc<Shared>,
    home: Arc<Home>,
    source: Source,
    given_up: GivenUp,
}

impl Making {
    async fn run(mut self, new: NewTenant) -> SqlResult<()> {
        let first = self.source.next(&mut self.given_up).await?.unwrap_or_else(IoBuf::empty);
        let image = Image::begin(&first, self.home.id())?;
        let name = new.name.unwrap_or_else(|| image.description.name.clone());
        let shared = self.shared.clone();
        let _claim = shared.claims.change(Subject::Tenant(name.clone()))?;
        statements::check_name(&shared, &name)?;
        let mut begins = new.begins;
        if matches!(self.source, Source::Client(_)) {
            begins.options = image.description.promise.parse().map_err(|error: OptionError| {
                SqlError::new(SqlState::DATA_CORRUPTED, "the backup's promise cannot be read")
                    .with_detail(error.to_string())
            })?;
        }
        let (row, _size_claims) = promises::new_row(&shared, name, begins, &new.with)?;
        let home = self.home.clone();
        making::make(&shared, &home, row, self.write(image, first)).await
    }

    /// # Errors
    /// 53100 where less is free than the file takes. Making it would take all that is, and until it is removed others would find the volume full.
    fn require_room(&self, len: ByteCount) -> SqlResult<()> {
        let Some(dir) = self.home.path().parent() else { return Ok(()) };
        match self.home.env().disk.free_space(dir) {
            Ok(free) if free < len => Err(SqlError::new(
                SqlState::DISK_FULL,
                format!("the tenant needs {len}, and the volume of {} has {free} left", dir.display()),
            )),
            // What cannot be asked for is found out.
            _ => Ok(()),
        }
    }

    /// Makes the data file.
    async fn write(mut self, mut image: Image, first: IoBuf) -> SqlResult<()> {
        self.home.check_space()?;
        self.require_room(image.reader.len())?;
        let failed = |error: storage::FileError| file_failed("the tenant cannot be made", &error);
        let (env, path) = (self.home.env(), self.home.path());
        let mut file = ImageFile::create(env, path, self.home.id(), image.reader.len()).map_err(failed)?;
        let mut piece = IoBuf::copy_of(&first[IMAGE_HEAD_LEN..]);
        drop(first);
        let whole = loop {
            if let Err(error) = image.take(&mut file, piece).await {
                break Err(failed(error));
            }
            if self.given_up.try_recv().is_err() {
                break Err(abandoned());
            }
            if let Err(full) = self.home.check_space() {
                break Err(full);
            }
            yield_now().await;
            match self.source.next(&mut self.given_up).await {
                Ok(Some(next)) => piece = next,
                Ok(None) => break image.finish().map_err(failed),
                Err(error) => break Err(error),
            }
        };
        match whole {
            Ok(()) => file.finish(env, image.reader.head(image.payload)).await.map_err(failed),
            Err(error) => {
                // Its writes end before the file is removed.
                let _ = file.quiesce().await;
                Err(error)
            }
        }
    }
}

/// An image as it comes in.
struct Image {
    reader: ImageReader,
    description: Description,
    payload: Vec<u8>,
    /// Bytes that came and make no whole slot: only at the end.
    ragged: usize,
}

impl Image {
    /// Reads the image's beginning from its first piece.
    fn begin(first: &[u8], adopter: TenantId) -> SqlResult<Image> {
        let reader = ImageReader::begin(Path::new(SOURCE), first, Some(adopter))
            .map_err(|error| file_failed("this is no backup", &error))?;
        let described = Description::of_root(reader.tenant(), &reader.root());
        let (description, payload) = described.map_err(|error: OpenError| {
            SqlError::new(SqlState::DATA_CORRUPTED, format!("this is no backup: {error}"))
        })?;
        Ok(Image { reader, description, payload, ragged: 0 })
    }

    /// Checks a piece, makes it the new tenant's and writes it.
    async fn take(&mut self, file: &mut ImageFile, mut piece: IoBuf) -> Result<(), storage::FileError> {
        assert_eq!(self.ragged, 0, "a piece of whole slots comes before the last one");
        self.ragged = piece.len() % PAGE_SIZE;
        piece.set_len(piece.len() - self.ragged);
        for slot in piece.chunks_exact_mut(PAGE_SIZE) {
            self.reader.slot(slot.try_into().expect("one page"))?;
        }
        file.append(piece).await?;
        for (slot, bytes) in self.reader.take_rewritten() {
            file.rewrite(slot, bytes).await?;
        }
        Ok(())
    }

    /// Whether all of the image has come, and no more.
    fn finish(&self) -> Result<(), storage::FileError> {
        self.reader.finish()?;
        if self.ragged == 0 {
            return Ok(());
        }
        let (end, found) = (self.reader.len().0, self.ragged as u64);
        Err(Corrupt::at(SOURCE, end, "bytes behind the image's end", found, 0).into())
    }
}
