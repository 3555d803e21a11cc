//! A tenant's state of one moment, to be copied: into a backup, or into another tenant.
//!
//! A copy is an image of the pages as a checkpoint of that moment would have them, so whoever opens it finds a tenant that
//! was closed then: roles, passwords' verifiers, settings and sequences included, sessions and transactions not. A backup
//! says in its root's payload, behind what the root of a data file says, whose it is.

use std::sync::Arc;

use base::{CommitNo, SqlResult};
use storage::{FileError, ImageWriter, Root};

use crate::catalog::{Decode, Encode, Malformed};
use crate::snapshot_view::Frozen;
use crate::tenant::{OpenError, PAYLOAD_LEN, Tenant, decode_payload};

/// Begins the description in a backup's payload; a newer form has another number.
const DESCRIPTION_VERSION: u8 = 1;

/// What a backup says of the tenant it was made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    pub name: String,
    /// The promise as text, `key = value, …`.
    pub promise: String,
    /// Microseconds since 1970 UTC.
    pub taken_at: i64,
    /// Version of the server.
    pub server: String,
}

/// One moment of a tenant. Its pages stay as they are until it and its images are dropped, and cost memory where the tenant changes them: they
/// count as versions kept for a snapshot, and are wanted back where these take the tenant over its `storage_max`.
pub struct TenantCopy {
    frozen: Arc<Frozen>,
    root: Root,
}

impl TenantCopy {
    /// The last commit in it.
    pub fn commit(&self) -> CommitNo {
        self.root.commit
    }

    /// To be asked now and then: whoever is told to gives the copy and its images up.
    ///
    /// # Errors
    /// 72000 when its pages are wanted back.
    pub fn require_kept(&self) -> SqlResult<()> {
        self.frozen.require_kept()
    }

    /// Lays it out as a data file of the tenant `id`. With a description it is a backup.
    ///
    /// # Errors
    /// The tenant has more pages than a data file can.
    pub async fn image(
        &self,
        id: base::TenantId,
        description: Option<&Description>,
    ) -> Result<ImageWriter, FileError> {
        let mut root = self.root.clone();
        assert_eq!(root.payload.len(), PAYLOAD_LEN);
        if let Some(description) = description {
            description.encode(&mut root.payload);
        }
        ImageWriter::new(self.frozen.pages.clone(), id, root).await
    }
}

impl Tenant {
    /// The state as it is now: constant time but for the trees that changed since the last checkpoint. Nothing of it may be
    /// told before the log is durable through [`Tenant::newest_pending`] as it is now.
    ///
    /// # Errors
    /// A page of the catalog's tree is damaged or cannot be read.
    pub fn begin_copy(&mut self) -> Result<TenantCopy, OpenError> {
        let root = self.write_records()?;
        // Not one that was taken before those records were written.
        let frozen = Arc::new(self.frozen_now());
        self.lend(&frozen);
        Ok(TenantCopy { frozen, root })
    }
}

impl Tenant {
    /// Ends a copy of this tenant whose images are gone. What it kept goes bit by bit, with [`Tenant::reclaim`].
    pub fn end_copy(&mut self, copy: TenantCopy) {
        self.let_go(copy.frozen);
    }
}

impl Description {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(DESCRIPTION_VERSION);
        for text in [&self.name, &self.promise, &self.server] {
            Box::<str>::from(text.as_str()).encode(out);
        }
        self.taken_at.encode(out);
    }

    fn decode(mut input: &[u8]) -> Result<Option<Description>, Malformed> {
        if input.is_empty() {
            return Ok(None);
        }
        if u8::decode(&mut input)? != DESCRIPTION_VERSION {
            return Err(Malformed("the backup was made by a newer version"));
        }
        let mut text = || Box::<str>::decode(&mut input).map(String::from);
        let (name, promise, server) = (text()?, text()?, text()?);
        let taken_at = i64::decode(&mut input)?;
        if !input.is_empty() {
            return Err(Malformed("bytes behind the backup's description"));
        }
        Ok(Some(Description { name, promise, taken_at, server }))
    }

    /// The description in the root of an image, and the payload of the data file that is made of it.
    ///
    /// # Errors
    /// The image is of a newer version, or no backup.
    pub fn of_root(tenant: base::TenantId, root: &Root) -> Result<(Description, Vec<u8>), OpenError> {
        decode_payload(tenant, &root.payload)?;
        let refused = |what| OpenError::Catalog { tenant, what };
        let (plain, described) = root.payload.split_at(PAYLOAD_LEN);
        match Description::decode(described) {
            Ok(Some(description)) => Ok((description, plain.to_vec())),
            Ok(None) => Err(refused("a data file, not a backup: it does not say what it was made of")),
            Err(Malformed(what)) => Err(refused(what)),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::TenantId;

    use super::*;

    fn example() -> Description {
        Description {
            name: "acmé".into(),
            promise: "cpu = 0.5".into(),
            taken_at: 1_700_000_000_000_000,
            server: "0.1.0".into(),
        }
    }

    #[test]
    fn a_description_reads_back_as_written_and_a_cut_one_is_refused() {
        let mut bytes = Vec::new();
        example().encode(&mut bytes);
        assert_eq!(Description::decode(&bytes), Ok(Some(example())));
        for len in 1..bytes.len() {
            assert!(Description::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        bytes.push(0);
        assert!(Description::decode(&bytes).is_err());
        bytes[0] = 2;
        assert_eq!(Description::decode(&bytes), Err(Malformed("the backup was made by a newer version")));
    }

    #[test]
    fn the_longest_description_fits_a_root() {
        let mut bytes = vec![0; PAYLOAD_LEN];
        let longest = Description {
            name: "x".repeat(base::limits::IDENTIFIER_LEN_MAX),
            promise: "x".repeat(1024),
            server: "x".repeat(64),
            ..example()
        };
        longest.encode(&mut bytes);
        assert!(bytes.len() <= storage::ROOT_PAYLOAD_LEN_MAX, "{}", bytes.len());
    }

    #[test]
    fn a_copy_is_a_tenant_of_its_moment() {
        let mut tenant = Tenant::in_memory(TenantId(16), "owner");
        let copy = tenant.begin_copy().unwrap();
        let env = env::Env::real_on_epoll();
        let mut image = env::block_on(&env, copy.image(TenantId(16), Some(&example()))).expect("fits");
        let mut bytes = Vec::new();
        while let Some(piece) = env::block_on(&env, image.next()).expect("in memory") {
            bytes.extend_from_slice(&piece);
        }
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("16.rowhouse");
        std::fs::write(&path, &bytes).expect("written");
        let (file, trees) =
            crate::verify::verify(&env, &path, TenantId(16), &mut |_, _| {}).expect("can be checked");
        assert!(file.is_clean() && trees.defects.is_empty(), "{file:?} {trees:?}");
        let (description, plain) = Description::of_root(TenantId(16), &file.root).expect("a backup");
        assert_eq!(description, example());
        let bare = Root { payload: plain, ..file.root };
        assert!(Description::of_root(TenantId(16), &bare).is_err(), "a data file is no backup");
    }
}
