//! Privileges on objects: PostgreSQL's access lists.

use base::Oid;

/// The grantee that stands for everybody.
pub const PUBLIC: Oid = Oid(0);

/// A set of privileges, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Privileges(pub u16);

macro_rules! privileges {
    ($($name:ident = $bit:literal, $letter:literal, $word:literal;)*) => {
        impl Privileges {
            $(pub const $name: Privileges = Privileges(1 << $bit);)*
            /// Each privilege, in PostgreSQL's order of them, with the letter of PostgreSQL's access lists and its SQL word.
            pub const NAMED: &[(Privileges, char, &'static str)] = &[$((Privileges::$name, $letter, $word)),*];
        }
    };
}

privileges! {
    INSERT = 0, 'a', "INSERT";
    SELECT = 1, 'r', "SELECT";
    UPDATE = 2, 'w', "UPDATE";
    DELETE = 3, 'd', "DELETE";
    TRUNCATE = 4, 'D', "TRUNCATE";
    REFERENCES = 5, 'x', "REFERENCES";
    TRIGGER = 6, 't', "TRIGGER";
    USAGE = 7, 'U', "USAGE";
    CREATE = 8, 'C', "CREATE";
    TEMPORARY = 10, 'T', "TEMPORARY";
    CONNECT = 9, 'c', "CONNECT";
}

impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    /// All that a table or view has.
    pub const TABLE: Privileges = Privileges(0b0111_1111);
    /// All that a sequence has: USAGE, SELECT, UPDATE.
    pub const SEQUENCE: Privileges = Privileges(1 << 7 | 1 << 1 | 1 << 2);
    /// All that a schema has: USAGE, CREATE.
    pub const SCHEMA: Privileges = Privileges(1 << 7 | 1 << 8);
    /// All that a database has: CREATE, CONNECT, TEMPORARY.
    pub const DATABASE: Privileges = Privileges(1 << 8 | 1 << 9 | 1 << 10);

    #[must_use]
    pub const fn union(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }
    #[must_use]
    pub const fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }
    pub const fn contains(self, other: Privileges) -> bool {
        self.0 & other.0 == other.0
    }
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What one grantor gave one grantee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AclItem {
    /// [`PUBLIC`] for everybody.
    pub grantee: Oid,
    pub grantor: Oid,
    pub privileges: Privileges,
    /// The part of `privileges` the grantee may pass on.
    pub grant_options: Privileges,
}

/// An object's access list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl(pub Vec<AclItem>);

impl Acl {
    /// The list an object starts with once something is granted: everything to its owner.
    pub fn owner_default(owner: Oid, all: Privileges) -> Acl {
        Acl(vec![AclItem {
            grantee: owner,
            grantor: owner,
            privileges: all,
            grant_options: Privileges::NONE,
        }])
    }

    /// Adds privileges, merging with what the same grantor gave before.
    pub fn grant(&mut self, grantee: Oid, grantor: Oid, privileges: Privileges, grant_option: bool) {
        let options = if grant_option { privileges } else { Privileges::NONE };
        match self.0.iter_mut().find(|i| i.grantee == grantee && i.grantor == grantor) {
            Some(item) => {
                item.privileges = item.privileges.union(privileges);
                item.grant_options = item.grant_options.union(options);
            }
            None => self.0.push(AclItem { grantee, grantor, privileges, grant_options: options }),
        }
    }

    /// Takes privileges (or only the option to pass them on) from `grantee`, whoever granted them.
    pub fn revoke(&mut self, grantee: Oid, privileges: Privileges, only_grant_option: bool) {
        for item in self.0.iter_mut().filter(|i| i.grantee == grantee) {
            item.grant_options = item.grant_options.without(privileges);
            if !only_grant_option {
                item.privileges = item.privileges.without(privileges);
            }
        }
        self.0.retain(|i| !i.privileges.is_empty());
    }

    /// What the owner had and gave, the new owner has and gives.
    pub fn change_owner(&mut self, from: Oid, to: Oid) {
        for item in std::mem::take(&mut self.0) {
            let renamed = |role: Oid| if role == from { to } else { role };
            let (grantee, grantor) = (renamed(item.grantee), renamed(item.grantor));
            self.grant(grantee, grantor, item.privileges, false);
            self.grant(grantee, grantor, item.grant_options, true);
        }
    }

    /// The union of what the list gives to any of `roles` and to everybody.
    pub fn of(&self, roles: &[Oid]) -> Privileges {
        let mut all = Privileges::NONE;
        for item in &self.0 {
            if item.grantee == PUBLIC || roles.contains(&item.grantee) {
                all = all.union(item.privileges);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revoking_takes_back_what_was_granted_and_no_more() {
        let (owner, reader) = (Oid(10), Oid(20));
        let mut acl = Acl::owner_default(owner, Privileges::TABLE);
        acl.grant(reader, owner, Privileges::SELECT, true);
        acl.grant(PUBLIC, owner, Privileges::INSERT, false);
        assert!(acl.of(&[reader]).contains(Privileges::SELECT));
        assert!(acl.of(&[Oid(99)]).contains(Privileges::INSERT));
        acl.revoke(reader, Privileges::SELECT, true);
        assert!(acl.of(&[reader]).contains(Privileges::SELECT));
        acl.revoke(reader, Privileges::SELECT, false);
        assert!(!acl.of(&[reader]).contains(Privileges::SELECT));
        assert_eq!(acl.0.len(), 2);
    }

    #[test]
    fn a_new_owner_has_what_the_old_one_had() {
        let (old, new, reader) = (Oid(10), Oid(11), Oid(20));
        let mut acl = Acl::owner_default(old, Privileges::TABLE);
        acl.grant(reader, old, Privileges::SELECT, true);
        acl.grant(new, old, Privileges::SELECT, false);
        acl.change_owner(old, new);
        assert_eq!((acl.of(&[new]), acl.of(&[old])), (Privileges::TABLE, Privileges::NONE));
        assert_eq!(acl.0.len(), 2, "the new owner's two are one");
        assert!(acl.0.iter().all(|item| item.grantor == new));
        assert!(acl.0.iter().any(|item| item.grantee == reader && item.grant_options == Privileges::SELECT));
    }
}
