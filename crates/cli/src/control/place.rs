//! Where control sockets lie: in a folder that no other user can look into.
//!
//! A server and a command may have different environments, so a command looks in both folders that
//! a server might have chosen.

use std::{
    env,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};
use tokio::net::UnixStream;

/// How much of a server's name is in the name of its socket. The path of a socket may have about a
/// hundred bytes.
const MOST_NAME: usize = 24;

/// How many sockets are looked at.
const MOST_SOCKETS: usize = 1_000;

/// The user that this process runs as.
pub(super) fn own_uid() -> io::Result<u32> {
    let (end, _) = UnixStream::pair()?;
    Ok(end.peer_cred()?.uid())
}

/// Where the socket of a server of this name lies without `--control`. Makes its folder.
pub(crate) fn default_path(name: &str) -> io::Result<PathBuf> {
    let uid = own_uid()?;
    let folder = folders(uid).remove(0);
    let made = DirBuilder::new().mode(0o700).create(&folder);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => check(&folder, uid)?,
    }
    Ok(folder.join(file_name(name, std::process::id())))
}

/// The sockets of servers of this user, running or not, in the order of their names.
pub(super) fn sockets() -> io::Result<Vec<PathBuf>> {
    let uid = own_uid()?;
    let mut found = Vec::new();
    for folder in folders(uid) {
        if check(&folder, uid).is_err() {
            continue;
        }
        let entries = fs::read_dir(&folder)?.flatten();
        let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_socket()));
        found.extend(sockets.map(|entry| entry.path()).take(MOST_SOCKETS));
    }
    found.sort();
    Ok(found)
}

/// The folders in which sockets may lie. A server takes the first.
fn folders(uid: u32) -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|folder| folder.is_absolute() && folder.is_dir());
    let runtime = runtime.map(|folder| folder.join("interlock"));
    let temporary = env::temp_dir().join(format!("interlock-{uid}"));
    runtime.into_iter().chain([temporary]).collect()
}

/// Whether a folder is this user's alone. Anybody can make one in the folder for temporary files.
fn check(folder: &Path, uid: u32) -> io::Result<()> {
    let about = fs::symlink_metadata(folder)?;
    if about.is_dir() && about.uid() == uid && about.mode() & 0o077 == 0 {
        return Ok(());
    }
    let folder = folder.display();
    let why = format!("`{folder}` is not a folder to which this user alone has access");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// `refund-4711.sock`.
fn file_name(name: &str, process: u32) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = name.chars().take(MOST_NAME).collect();
    let name = name.replace(|c| !fits(c), "_");
    format!("{name}-{process}.sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_name_of_a_socket_is_that_of_its_server_made_harmless() {
        assert_eq!(file_name("refund", 7), "refund-7.sock");
        assert_eq!(file_name("../ä b\n", 7), "___ä_b_-7.sock".replace('ä', "_"));
        assert!(file_name(&"x".repeat(1_000), u32::MAX).len() < 50);
    }

    #[tokio::test]
    async fn a_folder_that_others_can_look_into_is_not_used() {
        let uid = own_uid().unwrap();
        let folder = env::temp_dir().join(format!("interlock-place-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        for (mode, is_safe) in [
            (0o700, true),
            (0o755, false),
            (0o710, false),
            (0o702, false),
        ] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check(&folder, uid).is_ok(), is_safe, "{mode:o}");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(
            check(&folder, uid.wrapping_add(1)).is_err(),
            "another user's"
        );
        let link = folder.join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(check(&link, uid).is_err(), "a link");
        fs::remove_dir_all(folder).unwrap();
    }
}
