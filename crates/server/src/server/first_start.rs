//! The first start: the system tenant and the administrator's password.

use std::sync::Arc;

use env::Env;
use pgproto::scram::Verifier;

use crate::data_dir::DataDir;
use crate::tenants::{ADMINISTRATOR, Home};
use crate::{ServerConfig, StartError};

/// Characters of a generated password: 24 of 64 are 144 bits.
const PASSWORD_LEN: usize = 24;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Makes the system tenant if this is the first start, which also begins anew what an earlier one left unfinished. The
/// password file is there before the account it is for.
pub(super) fn run(
    env: &Env,
    data_dir: &DataDir,
    config: &ServerConfig,
    system: &Arc<Home>,
) -> Result<(), StartError> {
    if !data_dir.is_fresh() {
        return Ok(());
    }
    let password = match &config.admin_password {
        Some(password) => password.clone(),
        None => {
            let password = generate(env);
            let file = data_dir.admin_password_file();
            let text = format!("{password}\n");
            env.disk
                .write_small_atomic(&file, text.as_bytes(), 0o600)
                .map_err(StartError::io("write", &file))?;
            password
        }
    };
    if env.disk.exists(system.path()) {
        env.disk.remove(system.path()).map_err(StartError::io("remove", system.path()))?;
    }
    let verifier = Verifier::of_password(&password, env.entropy.bytes()).to_string();
    env::block_on(env, system.create(ADMINISTRATOR.to_owned(), Some(verifier)))
        .map_err(|error| StartError::Data(error.message().to_owned()))?;
    data_dir.complete_first_start()
}

fn generate(env: &Env) -> String {
    let bytes: [u8; PASSWORD_LEN] = env.entropy.bytes();
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])).collect()
}
