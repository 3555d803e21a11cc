//! Identifiers. Each is a distinct type, so that a page number can never be passed where a slot is meant.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A tenant, unique over the whole fleet and never reused.
    TenantId(u64)
);
id!(
    /// A volume of a running server: a device behind data files or the log. Not durable.
    VolumeNo(u32)
);
id!(
    /// A logical page of one tenant's data file; stays the same while the page moves between slots.
    PageNo(u32)
);
id!(
    /// A place of one page in a data file, counted in pages from the start of the file.
    SlotNo(u32)
);
id!(
    /// Generation of a tenant's live page map; a snapshot or checkpoint starts a new one.
    Epoch(u64)
);
id!(
    /// Dense number of a tenant's commit; the first is 1, 0 stands for the empty tenant.
    CommitNo(u64)
);
id!(
    /// Position in a worker's log stream, in bytes since the log was created.
    Lsn(u64)
);
id!(
    /// A B+-tree of one tenant; never reused within the tenant.
    TreeId(u32)
);
id!(
    /// A PostgreSQL object identifier, unique within a tenant's catalog.
    Oid(u32)
);
id!(
    /// A transaction of one tenant since it was opened; not durable.
    TxnId(u64)
);
id!(
    /// A worker thread, counted from 0.
    WorkerId(u16)
);
id!(
    /// A session since the server started; shown to clients as the backend's process id.
    SessionId(u32)
);

impl TenantId {
    /// The administrator's database `rowhouse`, which also stands for the server's own work.
    pub const SYSTEM: TenantId = TenantId(1);
    /// The first id given to a user's tenant.
    pub const FIRST_USER: TenantId = TenantId(16);
}

impl CommitNo {
    /// The number that follows this one.
    #[must_use]
    pub const fn next(self) -> CommitNo {
        CommitNo(self.0 + 1)
    }
}

impl Epoch {
    /// The epoch that follows this one.
    #[must_use]
    pub const fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}
