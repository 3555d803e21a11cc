//! The extensions that there are, in PostgreSQL 15's versions.

/// One of them.
#[derive(Debug)]
pub struct SystemExtension {
    pub name: &'static str,
    pub version: &'static str,
    /// Its comment, unless somebody says otherwise.
    pub comment: &'static str,
}

/// All of them. What they bring is built in, whether they were made or not.
pub const EXTENSIONS: &[SystemExtension] = &[
    SystemExtension { name: "plpgsql", version: "1.0", comment: "PL/pgSQL procedural language" },
    SystemExtension { name: "pgcrypto", version: "1.3", comment: "cryptographic functions" },
    SystemExtension {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
    },
];

/// The one of that name.
pub fn extension_named(name: &str) -> Option<&'static SystemExtension> {
    EXTENSIONS.iter().find(|extension| extension.name == name)
}
