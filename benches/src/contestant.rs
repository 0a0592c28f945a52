//! The servers that are compared, and how each is started.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// Where the programs lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Programs {
    pub(crate) ours: PathBuf,
    pub(crate) limit: PathBuf,
    pub(crate) rmcp: PathBuf,
    /// Servers in other languages, each with its interpreter and script.
    pub(crate) peers: Vec<Peer>,
}

/// A server in another language.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) interpreter: PathBuf,
    pub(crate) script: PathBuf,
}

/// How requests reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    /// HTTP in a session, as in 2025-11-25.
    Session,
    /// HTTP without one, as in 2026-07-28.
    Stateless,
}

/// One server of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Contestant {
    Ours,
    Limit,
    /// rmcp at its fastest: its tools by hand, over stdio by its non-blocking pipes.
    Rmcp,
    /// rmcp with its blocking stdio.
    RmcpBlocking,
    /// rmcp with its macros.
    RmcpMacros,
    /// Ours, behind a workflow.
    Gated(Gated),
    /// Ours, with a tool that was written for rmcp.
    Mounted,
    Peer(Peer),
}

/// A workflow that the tools are behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gated {
    pub(crate) gate: Gate,
    pub(crate) states: usize,
    /// All connections are of one session, whatever the row says.
    pub(crate) in_one_session: bool,
}

/// What a call does to the workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing.
    Stay,
    /// It moves on, and lists always hold everything.
    Move,
    /// It moves on, and clients hear that lists have changed.
    Dynamic,
    /// It moves on if a guard says that it may.
    Guard,
}

/// How many states a workflow has if nobody says otherwise.
pub(crate) const STATES: usize = 10;

impl Gate {
    fn word(self) -> &'static str {
        match self {
            Self::Stay => "stay",
            Self::Move => "move",
            Self::Dynamic => "dynamic",
            Self::Guard => "guard",
        }
    }
}

impl From<Gate> for Contestant {
    fn from(gate: Gate) -> Self {
        Self::Gated(Gated {
            gate,
            states: STATES,
            in_one_session: false,
        })
    }
}

impl Gated {
    fn name(self) -> String {
        let what = match self.gate {
            Gate::Stay => "stay",
            Gate::Move => "move",
            Gate::Dynamic => "move, lists follow",
            Gate::Guard => "move with a guard",
        };
        let mut name = format!("gated: {what}");
        if self.states != STATES {
            name.push_str(&format!(", {} states", self.states));
        }
        if self.in_one_session {
            name.push_str(", in one session");
        }
        name
    }
}

impl Contestant {
    /// Its name in a table.
    pub(crate) fn name(&self, way: Way) -> String {
        let (pipes, http) = match self {
            Self::Ours => ("interlock", "interlock"),
            Self::Mounted => ("mounted", "mounted"),
            Self::Limit => ("limit", "limit"),
            Self::Rmcp => ("rmcp `stdio_pipes`", "rmcp"),
            Self::RmcpBlocking => ("rmcp `stdio`", "rmcp"),
            Self::RmcpMacros => ("rmcp macros, `stdio_pipes`", "rmcp macros"),
            Self::Gated(gated) => return gated.name(),
            Self::Peer(peer) => (peer.name.as_str(), peer.name.as_str()),
        };
        match way {
            Way::Stdio => pipes.to_owned(),
            Way::Session | Way::Stateless => http.to_owned(),
        }
    }

    /// The command that starts it with this many tools; `address` is where it listens, if it does.
    pub(crate) fn command(
        &self,
        programs: &Programs,
        way: Way,
        address: Option<SocketAddr>,
        tools: usize,
    ) -> Command {
        let program = match self {
            Self::Ours | Self::Gated(_) | Self::Mounted => &programs.ours,
            Self::Limit => &programs.limit,
            Self::Rmcp | Self::RmcpBlocking | Self::RmcpMacros => &programs.rmcp,
            Self::Peer(peer) => &peer.interpreter,
        };
        let mut command = Command::new(program);
        command.args(self.arguments(way, address));
        command.args(["--tools", &tools.to_string()]);
        if let Self::Gated(gated) = self {
            let states = gated.states.to_string();
            command.args(["--gate", gated.gate.word(), "--states", &states]);
        }
        command
    }

    /// How many sessions its connections share, of so many that the row has.
    pub(crate) fn sessions(&self, of_row: u64) -> u64 {
        match self {
            Self::Gated(gated) if gated.in_one_session => 1,
            Self::Gated(_)
            | Self::Ours
            | Self::Mounted
            | Self::Limit
            | Self::Rmcp
            | Self::RmcpBlocking
            | Self::RmcpMacros
            | Self::Peer(_) => of_row,
        }
    }

    fn arguments(&self, way: Way, address: Option<SocketAddr>) -> Vec<OsString> {
        let mut words: Vec<OsString> = match self {
            Self::Peer(peer) => vec![peer.script.clone().into()],
            Self::Ours
            | Self::Gated(_)
            | Self::Mounted
            | Self::Limit
            | Self::Rmcp
            | Self::RmcpBlocking
            | Self::RmcpMacros => Vec::new(),
        };
        match (way, address) {
            (Way::Stdio, _) | (Way::Session | Way::Stateless, None) => {
                words.push(self.stdio_flag().into());
            }
            (Way::Session | Way::Stateless, Some(address)) => {
                words.extend(["--http".into(), address.to_string().into()]);
            }
        }
        if way == Way::Stateless && self.is_told_of_sessions() {
            words.push("--stateless".into());
        }
        match self {
            Self::RmcpMacros => words.push("--macros".into()),
            Self::Mounted => words.push("--mounted".into()),
            Self::Ours
            | Self::Limit
            | Self::Rmcp
            | Self::RmcpBlocking
            | Self::Gated(_)
            | Self::Peer(_) => {}
        }
        words
    }

    fn stdio_flag(&self) -> &'static str {
        match self {
            Self::Rmcp | Self::RmcpMacros => "--pipes",
            Self::Ours
            | Self::Gated(_)
            | Self::Mounted
            | Self::Limit
            | Self::RmcpBlocking
            | Self::Peer(_) => "--stdio",
        }
    }

    /// Whether it must be told that there will be no sessions.
    fn is_told_of_sessions(&self) -> bool {
        match self {
            Self::Ours | Self::Gated(_) | Self::Mounted | Self::Limit => false,
            Self::Rmcp | Self::RmcpBlocking | Self::RmcpMacros | Self::Peer(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(contestant: &Contestant, way: Way) -> String {
        let programs = Programs {
            ours: "echo".into(),
            limit: "limit".into(),
            rmcp: "rmcp_echo".into(),
            peers: Vec::new(),
        };
        let address = (way != Way::Stdio).then(|| ([127, 0, 0, 1], 8000).into());
        let command = contestant.command(&programs, way, address, 21);
        let words = command.get_args().map(|word| word.to_string_lossy());
        let mut line = vec![command.get_program().to_string_lossy()];
        line.extend(words);
        line.join(" ")
    }

    #[test]
    fn each_is_started_as_it_wants() {
        use Contestant::{Limit, Ours, Rmcp, RmcpBlocking, RmcpMacros};
        assert_eq!(line(&Ours, Way::Stdio), "echo --stdio --tools 21");
        let mounted = "echo --stdio --mounted --tools 21";
        assert_eq!(line(&Contestant::Mounted, Way::Stdio), mounted);
        assert_eq!(
            line(&Limit, Way::Stateless),
            "limit --http 127.0.0.1:8000 --tools 21"
        );
        assert_eq!(line(&Rmcp, Way::Stdio), "rmcp_echo --pipes --tools 21");
        assert_eq!(
            line(&RmcpBlocking, Way::Stdio),
            "rmcp_echo --stdio --tools 21"
        );
        assert_eq!(
            line(&RmcpMacros, Way::Stateless),
            "rmcp_echo --http 127.0.0.1:8000 --stateless --macros --tools 21"
        );
        let gated = Contestant::Gated(Gated {
            gate: Gate::Dynamic,
            states: 1_000,
            in_one_session: true,
        });
        assert_eq!(
            line(&gated, Way::Stdio),
            "echo --stdio --tools 21 --gate dynamic --states 1000"
        );
        let peer = Contestant::Peer(Peer {
            name: "Python".to_owned(),
            interpreter: "python3".into(),
            script: "echo.py".into(),
        });
        assert_eq!(
            line(&peer, Way::Session),
            "python3 echo.py --http 127.0.0.1:8000 --tools 21"
        );
    }

    #[test]
    fn the_name_of_a_workflow_says_what_is_unusual_about_it() {
        let plain = Contestant::from(Gate::Move);
        assert_eq!(plain.name(Way::Stdio), "gated: move");
        assert_eq!(plain.sessions(64), 64);
        let unusual = Contestant::Gated(Gated {
            gate: Gate::Guard,
            states: 1_000,
            in_one_session: true,
        });
        let name = "gated: move with a guard, 1000 states, in one session";
        assert_eq!(unusual.name(Way::Session), name);
        assert_eq!(unusual.sessions(64), 1);
        assert_eq!(Contestant::Ours.sessions(64), 64);
    }
}
