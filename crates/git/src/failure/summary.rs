//! Describes failures of commands that connect to a remote in words of our own, because the messages of git may repeat
//! text of a server.

/// The signs of failures with their descriptions; the first one that occurs counts.
const WORDS: &[(&str, &str)] = &[
    ("seconds of processor time", "it used more processor time than it may"),
    ("died of signal 24", "it used more processor time than it may"),
    ("Out of memory", "it needed more memory than it may"),
    ("No space left on device", "a disk is full"),
    ("Disk quota exceeded", "a disk is full"),
    ("SSL certificate problem", "the certificate of the server cannot be verified"),
    ("certificate verification failed", "the certificate of the server cannot be verified"),
    ("no alternative certificate subject name", "the certificate of the server is for another name"),
    ("does not match target host name", "the certificate of the server is for another name"),
    ("GnuTLS", "the TLS connection failed"),
    ("SSL_", "the TLS connection failed"),
    ("TLS connect error", "the TLS connection failed"),
    ("Host key verification failed", "the SSH host key of the server is not known to the service, or has changed"),
    ("Permission denied (", "the server refused the SSH key of the service"),
    ("cannot run ssh", "ssh is not installed"),
    ("repository was archived", "the repository is archived"),
    ("is archived", "the repository is archived"),
    ("archived project", "the repository is archived"),
    ("without `workflow", "the credential may not change files of CI pipelines"),
    ("push protection", "the commits contain something that looks like a secret (push protection)"),
    ("Push cannot contain secrets", "the commits contain something that looks like a secret (push protection)"),
    ("exceeds GitHub's file size limit", "a file is larger than the code host accepts (GH001)"),
    ("GH001", "a file is larger than the code host accepts (GH001)"),
    ("GH006", "a rule protects the branch (GH006)"),
    ("GH007", "the code host does not publish the email address of the commits (GH007)"),
    ("GH013", "a rule of the repository forbids the commits (GH013)"),
    ("Repository rule violations", "a rule of the repository forbids the commits"),
    ("protected branch", "a rule protects the branch"),
    (
        "refusing to update checked out branch",
        "the branch is checked out in the remote, which is not a bare repository",
    ),
    ("branch is currently checked out", "the branch is checked out in the remote, which is not a bare repository"),
    ("insufficient permission for adding", "the server may not write to its repository"),
    ("unable to create temporary object directory", "the server may not write to its repository"),
    ("Read-only file system", "the server may not write to its repository"),
    ("cannot lock ref", "the branch is locked, or was changed at the same time"),
    ("failed to update ref", "the branch is locked, or was changed at the same time"),
    ("hook declined", "a hook of the server declined it"),
    ("non-fast-forward", "the branch has other commits"),
    ("fetch first", "the branch has other commits"),
    ("stale info", "the branch has other commits"),
    ("[remote rejected]", "the server declined it"),
    ("shallow", "the history of the repository is not complete"),
    ("upload-pack: not our ref", "the server does not have the commit"),
    ("Authentication failed", "the server refused the credential"),
    ("could not read Username", "the server asks for a credential"),
    ("could not read Password", "the server asks for a credential"),
    ("terminal prompts disabled", "the server asks for a credential"),
    ("does not appear to be a git repository", "it is not a git repository, or does not exist"),
    ("epository not found", "it does not exist, or the credential may not read it"),
    ("not found", "it does not exist, or the credential may not read it"),
    ("not valid: is this a git repository?", "the server does not answer as a git server does"),
    ("protocol error", "the server does not answer as a git server does"),
    ("bad line length", "the server does not answer as a git server does"),
    ("object format", "the repository has another object format"),
    ("Operation too slow", "the server is too slow"),
    ("timed out", "the server is too slow"),
    ("Timeout was reached", "the server is too slow"),
    ("Could not resolve proxy", "the proxy of the service was not found"),
    ("Could not resolve host", "the name of the server cannot be resolved"),
    ("CONNECT tunnel failed", "the proxy of the service refused the connection"),
    ("from proxy after CONNECT", "the proxy of the service refused the connection"),
    ("Failed to connect", "the connection failed"),
    ("Couldn't connect", "the connection failed"),
    ("Connection refused", "the connection was refused"),
    ("No route to host", "there is no route to the server"),
    ("Network is unreachable", "the network is unreachable"),
    ("Connection reset", "the server ended the connection"),
    ("early EOF", "the server ended the connection"),
    ("hung up unexpectedly", "the server ended the connection"),
    ("Could not read from remote repository", "the server ended the connection"),
];

/// The message of git about a status of HTTP, which precedes its three digits.
const STATUS: &str = "The requested URL returned error: ";

/// Describes the failure of a command by its error output, in which text of a server may occur.
pub(crate) fn summary(stderr: &str, code: Option<i32>) -> String {
    let known = WORDS.iter().find(|(sign, _)| stderr.contains(sign)).map(|(_, words)| (*words).to_owned());
    let text = status(stderr).filter(|_| !is_rule(stderr)).or(known).or_else(|| checked_object(stderr));
    let text = text.unwrap_or_else(|| match code {
        Some(code) => format!("it ended with the exit code {code}"),
        None => "a signal ended it".to_owned(),
    });
    match stderr.is_empty() {
        true => text,
        false => format!("{text}. The whole message is in the log of the service, for administrators"),
    }
}

/// Returns whether a message is about the repository, and the status says less.
fn is_rule(stderr: &str) -> bool {
    stderr.contains("archived") || stderr.contains("Authentication failed")
}

/// Describes a status of HTTP.
fn status(stderr: &str) -> Option<String> {
    let (_, rest) = stderr.split_once(STATUS)?;
    let digits = rest.get(..3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    Some(match digits.as_bytes()[0] {
        b'3' => format!(
            "the server redirects to another address, and redirects to another host are not followed ({digits})"
        ),
        _ => format!("the server answered with the status {digits}"),
    })
}

/// Describes an object that git's check refuses (git-fsck(1)): its name, and the kind of the problem.
fn checked_object(stderr: &str) -> Option<String> {
    let line = stderr.lines().find_map(|line| line.strip_prefix("error: object "))?;
    let (object, rest) = line.split_once(": ")?;
    let kind = rest.split(':').next().unwrap_or_default();
    let is_name = object.len() == 40 && object.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_kind = (1..=40).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_name && is_kind).then(|| format!("fsck error in the object {object} ({kind})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_server_is_in_a_description() {
        let planted = "S3CR3T of 169.254.169.254";
        for (stderr, expected) in [
            (
                "remote: S3CR3T\nfatal: unable to access 'http://x/': The requested URL returned error: 403",
                "status 403",
            ),
            ("fatal: remote error: S3CR3T", "exit code 128"),
            ("fatal: protocol error: bad line length character: S3CR3T", "as a git server does"),
            (" ! [remote rejected] x -> x (S3CR3T)\nerror: failed to push some refs", "declined it"),
            ("remote: GH013: Repository rule violations S3CR3T\n ! [remote rejected] x -> x (S3CR3T)", "(GH013)"),
            ("S3CR3T banner of ssh\ngit@h: Permission denied (publickey).", "SSH key"),
            ("fatal: unable to access 'http://x/': The requested URL returned error: 301", "redirects"),
            ("fatal: unable to access 'http://x/': The requested URL returned error: S3CR3T", "exit code 128"),
            ("error: object S3CR3T: zeroPaddedFilemode: x\nfatal: fsck error in packed object", "exit code 128"),
            (
                "error: object 0123456789012345678901234567890123456789: zeroPaddedFilemode: S3CR3T\nfatal: fsck error",
                "(zeroPaddedFilemode)",
            ),
        ] {
            let stderr = stderr.replace("S3CR3T", planted);
            let found = summary(&stderr, Some(128));
            assert!(found.contains(expected) && !found.contains("S3CR3T"), "{stderr}: {found}");
            assert!(found.contains("log of the service"), "{found}");
        }
        assert_eq!(summary("", None), "a signal ended it");
    }
}
