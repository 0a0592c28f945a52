//! Every message that a version has: its name, its shape, and who may send it.
//!
//! What clients may ask is [`Method`], since that is what a server dispatches on; the rest is a
//! table here.

use crate::{Version, era::Method};

/// Who sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Whether a message is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// It is.
    Request,
    /// It is not.
    Notification,
}

/// Whether that version has such a message.
///
/// ```
/// use interlock_proto::{Version, messages::{Sender, Shape, exists}};
///
/// let asks = |version| exists("elicitation/create", Shape::Request, Sender::Server, version);
/// assert!(asks(Version::V2025_06_18));
/// assert!(!asks(Version::V2025_03_26));
/// // On 2026-07-28 a server asks by its result, and sends no requests at all.
/// assert!(!asks(Version::V2026_07_28));
/// ```
#[must_use]
pub fn exists(name: &str, shape: Shape, sender: Sender, version: Version) -> bool {
    if (shape, sender) == (Shape::Request, Sender::Client) {
        return Method::parse(name).is_some_and(|method| method.exists_in(version));
    }
    TABLE.iter().any(|row| {
        row.name == name
            && row.shape == shape
            && row.senders.contains(&sender)
            && (row.since..=row.until).contains(&version)
    })
}

/// The names of all messages that a version has of that shape from that sender.
pub fn names(shape: Shape, sender: Sender, version: Version) -> impl Iterator<Item = &'static str> {
    let methods = Method::ALL.iter().map(|method| method.name());
    let rest = TABLE.iter().map(|row| row.name);
    let mut all: Vec<_> = methods.chain(rest).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
        .filter(move |name| exists(name, shape, sender, version))
}

struct Row {
    name: &'static str,
    shape: Shape,
    senders: &'static [Sender],
    since: Version,
    until: Version,
}

const fn row(
    name: &'static str,
    shape: Shape,
    senders: &'static [Sender],
    since: Version,
    until: Version,
) -> Row {
    Row {
        name,
        shape,
        senders,
        since,
        until,
    }
}

const SERVER: &[Sender] = &[Sender::Server];
const CLIENT: &[Sender] = &[Sender::Client];
const BOTH: &[Sender] = &[Sender::Client, Sender::Server];

const TABLE: &[Row] = {
    use Shape::{Notification, Request};
    use Version::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
    &[
        row("ping", Request, SERVER, V2024_11_05, V2025_11_25),
        row(
            "sampling/createMessage",
            Request,
            SERVER,
            V2024_11_05,
            V2025_11_25,
        ),
        row("roots/list", Request, SERVER, V2024_11_05, V2025_11_25),
        row(
            "elicitation/create",
            Request,
            SERVER,
            V2025_06_18,
            V2025_11_25,
        ),
        row("tasks/get", Request, SERVER, V2025_11_25, V2025_11_25),
        row("tasks/result", Request, SERVER, V2025_11_25, V2025_11_25),
        row("tasks/list", Request, SERVER, V2025_11_25, V2025_11_25),
        row("tasks/cancel", Request, SERVER, V2025_11_25, V2025_11_25),
        row(
            "notifications/cancelled",
            Notification,
            BOTH,
            V2024_11_05,
            V2026_07_28,
        ),
        row(
            "notifications/progress",
            Notification,
            SERVER,
            V2024_11_05,
            V2026_07_28,
        ),
        row(
            "notifications/progress",
            Notification,
            CLIENT,
            V2024_11_05,
            V2025_11_25,
        ),
        row(
            "notifications/initialized",
            Notification,
            CLIENT,
            V2024_11_05,
            V2025_11_25,
        ),
        row(
            "notifications/roots/list_changed",
            Notification,
            CLIENT,
            V2024_11_05,
            V2025_11_25,
        ),
        row(
            "notifications/tasks/status",
            Notification,
            BOTH,
            V2025_11_25,
            V2025_11_25,
        ),
        row(
            "notifications/message",
            Notification,
            SERVER,
            V2024_11_05,
            V2026_07_28,
        ),
        row(
            "notifications/resources/updated",
            Notification,
            SERVER,
            V2024_11_05,
            V2026_07_28,
        ),
        row(
            "notifications/resources/list_changed",
            Notification,
            SERVER,
            V2024_11_05,
            V2026_07_28,
        ),
        row(
            "notifications/tools/list_changed",
            Notification,
            SERVER,
            V2024_11_05,
            V2026_07_28,
        ),
        row(
            "notifications/prompts/list_changed",
            Notification,
            SERVER,
            V2024_11_05,
            V2026_07_28,
        ),
        row(
            "notifications/elicitation/complete",
            Notification,
            SERVER,
            V2025_11_25,
            V2025_11_25,
        ),
        row(
            "notifications/subscriptions/acknowledged",
            Notification,
            SERVER,
            V2026_07_28,
            V2026_07_28,
        ),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[track_caller]
    fn check(shape: Shape, sender: Sender, version: Version, expected: &[&str]) {
        let found: BTreeSet<_> = names(shape, sender, version).collect();
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        assert_eq!(found, expected, "{shape:?} {sender:?} {version}");
    }

    const OLD_REQUESTS: [&str; 13] = [
        "ping",
        "initialize",
        "completion/complete",
        "logging/setLevel",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "tools/call",
        "tools/list",
    ];
    const TASKS: [&str; 4] = ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"];
    const TOLD_BY_ALL_SERVERS: [&str; 7] = [
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/resources/updated",
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
    ];
    const TOLD_BY_OLD_CLIENTS: [&str; 4] = [
        "notifications/cancelled",
        "notifications/progress",
        "notifications/initialized",
        "notifications/roots/list_changed",
    ];
    const ASKED_BY_OLD_SERVERS: [&str; 3] = ["ping", "sampling/createMessage", "roots/list"];

    #[test]
    fn the_first_two_versions_have_the_same_messages() {
        for version in [Version::V2024_11_05, Version::V2025_03_26] {
            check(Shape::Request, Sender::Client, version, &OLD_REQUESTS);
            check(
                Shape::Request,
                Sender::Server,
                version,
                &ASKED_BY_OLD_SERVERS,
            );
            check(
                Shape::Notification,
                Sender::Client,
                version,
                &TOLD_BY_OLD_CLIENTS,
            );
            check(
                Shape::Notification,
                Sender::Server,
                version,
                &TOLD_BY_ALL_SERVERS,
            );
        }
    }

    #[test]
    fn elicitation_came_with_2025_06_18() {
        let version = Version::V2025_06_18;
        let asked = [&ASKED_BY_OLD_SERVERS[..], &["elicitation/create"]].concat();
        check(Shape::Request, Sender::Client, version, &OLD_REQUESTS);
        check(Shape::Request, Sender::Server, version, &asked);
        check(
            Shape::Notification,
            Sender::Client,
            version,
            &TOLD_BY_OLD_CLIENTS,
        );
        check(
            Shape::Notification,
            Sender::Server,
            version,
            &TOLD_BY_ALL_SERVERS,
        );
    }

    #[test]
    fn tasks_came_with_2025_11_25() {
        let version = Version::V2025_11_25;
        let status = "notifications/tasks/status";
        let complete = "notifications/elicitation/complete";
        let asked = [&ASKED_BY_OLD_SERVERS[..], &["elicitation/create"], &TASKS].concat();
        check(
            Shape::Request,
            Sender::Client,
            version,
            &[&OLD_REQUESTS[..], &TASKS].concat(),
        );
        check(Shape::Request, Sender::Server, version, &asked);
        let told = [&TOLD_BY_OLD_CLIENTS[..], &[status]].concat();
        check(Shape::Notification, Sender::Client, version, &told);
        let told = [&TOLD_BY_ALL_SERVERS[..], &[status, complete]].concat();
        check(Shape::Notification, Sender::Server, version, &told);
    }

    /// `tasks/*` there belongs to an extension.
    #[test]
    fn on_2026_07_28_servers_ask_nothing_and_clients_tell_little() {
        let version = Version::V2026_07_28;
        let requests = [
            "server/discover",
            "completion/complete",
            "prompts/get",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "subscriptions/listen",
            "tools/call",
            "tools/list",
            "tasks/get",
            "tasks/cancel",
            "tasks/update",
        ];
        check(Shape::Request, Sender::Client, version, &requests);
        check(Shape::Request, Sender::Server, version, &[]);
        let told = ["notifications/cancelled"];
        check(Shape::Notification, Sender::Client, version, &told);
        let acknowledged = "notifications/subscriptions/acknowledged";
        let told = [&TOLD_BY_ALL_SERVERS[..], &[acknowledged]].concat();
        check(Shape::Notification, Sender::Server, version, &told);
    }
}
