//! Crossroads: a small adventure in which tools appear and disappear with the state.
//!
//! The automaton says what can be done now. The world, which each instance has for itself, says
//! what comes of it: the door sticks once, the paths open after the button, one key fits.
//!
//! It serves standard input and output, or with `--http ADDRESS` many players at once.

use interlock::{
    Context, Failure, HttpOptions, Json, NoArguments, Server, Tool, Workflow, schemars,
    workflow::{Invalid, end},
};
use std::{
    collections::HashMap,
    error::Error,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::net::TcpListener;

const USAGE: &str = "\
usage: crossroads                   serve standard input and output
       crossroads --http ADDRESS    serve HTTP there, at the path /mcp; port 0 is any free one
";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let served = match words.as_slice() {
        [] => serve_stdio().await,
        ["--http", address] => serve_http(address).await,
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crossroads: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve_stdio() -> Result<(), Box<dyn Error>> {
    Ok(server()?.serve_stdio().await?)
}

async fn serve_http(address: &str) -> Result<(), Box<dyn Error>> {
    let server = server()?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}"))?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    let options = HttpOptions::default();
    Ok(server.serve_http_with(listener, options).await?)
}

fn server() -> Result<Server, Box<dyn Error>> {
    let worlds = Worlds::default();
    let server = Server::builder("crossroads", env!("CARGO_PKG_VERSION"))
        .instructions("Find your way through the last door. Tools appear as you get on.")
        .tool(worlds.action(
            "t_open_door",
            "Open the door in front of you",
            World::open_door,
        ))
        .tool(worlds.action(
            "t_press_button",
            "Press the button on the wall",
            World::press_button,
        ))
        .tool(worlds.action("t_choose_left_path", "Take the left path", World::take_path))
        .tool(worlds.action(
            "t_choose_right_path",
            "Take the right path",
            World::take_path,
        ))
        .tool(worlds.action("t_go_back", "Go back to the crossroad", World::go_back))
        .tool(worlds.pick_up_key())
        .tool(worlds.open_door_with_key())
        .workflow(crossroads()?)
        .build()?;
    Ok(server)
}

fn crossroads() -> Result<Workflow, Invalid> {
    Workflow::builder("crossroads")
        .state("C_entry", |s| {
            s.initial()
                .tool("t_open_door", |t| t.success("C_crossroad"))
        })
        .state("C_crossroad", |s| {
            s.tool("t_press_button", |t| t.success("C_crossroad"))
                .tool("t_choose_left_path", |t| t.success("C_doorL"))
                .tool("t_choose_right_path", |t| t.success("C_doorR"))
        })
        .state("C_doorL", |s| {
            s.tool("t_open_door_with_key", |t| {
                t.success(end("C_doorL")).error("C_rollback_left")
            })
            .tool("t_pick_up_key", |t| t.success("C_doorL"))
        })
        .state("C_doorR", |s| {
            s.tool("t_open_door_with_key", |t| {
                t.success(end("C_doorR")).error("C_rollback_right")
            })
            .tool("t_pick_up_key", |t| t.success("C_doorR"))
        })
        .state("C_rollback_left", |s| {
            s.tool("t_go_back", |t| t.success("C_crossroad"))
                .tool("t_open_door_with_key", |t| {
                    t.success(end("C_doorL")).error("C_rollback_left")
                })
        })
        .state("C_rollback_right", |s| {
            s.tool("t_go_back", |t| t.success("C_crossroad"))
                .tool("t_open_door_with_key", |t| {
                    t.success(end("C_doorR")).error("C_rollback_right")
                })
        })
        .build()
}

/// What is true for one player.
#[derive(Default)]
struct World {
    door_has_stuck: bool,
    button_pressed: bool,
}

/// The key that fits.
const KEY: &str = "brass";

impl World {
    fn open_door(&mut self) -> Result<&'static str, Failure> {
        if std::mem::replace(&mut self.door_has_stuck, true) {
            Ok("The door opens. You stand at a crossroad.")
        } else {
            Err(Failure::new("The door is stuck. Try again."))
        }
    }

    fn press_button(&mut self) -> Result<&'static str, Failure> {
        self.button_pressed = true;
        Ok("Somewhere, two gates open.")
    }

    fn take_path(&mut self) -> Result<&'static str, Failure> {
        if self.button_pressed {
            Ok("You stand before another door. It needs a key.")
        } else {
            Err(Failure::new(
                "A gate blocks the path. There is a button on the wall.",
            ))
        }
    }

    fn go_back(&mut self) -> Result<&'static str, Failure> {
        Ok("You are back at the crossroad.")
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WithKey {
    /// The key to try, as `t_pick_up_key` names it.
    key: String,
}

#[derive(serde::Serialize)]
struct Found {
    key: &'static str,
}

/// One world for each instance: no player sees another's.
#[derive(Clone, Default)]
struct Worlds(Arc<Mutex<HashMap<String, World>>>);

impl Worlds {
    fn with<T>(&self, context: &Context, act: impl FnOnce(&mut World) -> T) -> T {
        let player = context.instance().unwrap_or_default().to_owned();
        let mut worlds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(worlds.entry(player).or_default())
    }

    fn action(
        &self,
        name: &'static str,
        description: &'static str,
        act: fn(&mut World) -> Result<&'static str, Failure>,
    ) -> Tool {
        let worlds = self.clone();
        Tool::new(name, move |_: NoArguments, context: Context| {
            std::future::ready(worlds.with(&context, act))
        })
        .description(description)
    }

    fn pick_up_key(&self) -> Tool {
        Tool::new("t_pick_up_key", |_: NoArguments, _: Context| async {
            Json(Found { key: KEY })
        })
        .description("Pick up the key that lies on the ground")
    }

    /// The last door: whoever opens it begins again, in a new world.
    fn open_door_with_key(&self) -> Tool {
        let worlds = self.clone();
        Tool::new(
            "t_open_door_with_key",
            move |args: WithKey, context: Context| {
                let opened = worlds.with(&context, |world| {
                    if args.key != KEY {
                        return Err(Failure::new("The key does not fit."));
                    }
                    *world = World::default();
                    Ok("The door opens, and you are free.")
                });
                std::future::ready(opened)
            },
        )
        .description("Open the door with a key")
    }
}
