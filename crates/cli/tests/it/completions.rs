//! `interlock completions`.

use crate::stage::Stage;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands_and_flags() {
    let stage = Stage::new();
    for (shell, mark) in [
        ("bash", "complete -F _interlock"),
        ("zsh", "#compdef interlock"),
        ("fish", "complete -c interlock"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer[interlock]"),
    ] {
        let ended = stage.run(&["completions", shell]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{shell}");
        assert!(ended.stdout.contains(mark), "{shell}: {}", ended.stdout);
        for word in ["completions", "deny-warnings"] {
            assert!(ended.stdout.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn bash_can_read_its_script() {
    let stage = Stage::new();
    let script = stage.run(&["completions", "bash"]).stdout;
    let stage = stage.with("interlock.bash", &script);
    let read = std::process::Command::new("bash")
        .args(["-n", "interlock.bash"])
        .current_dir(stage.path("."))
        .status();
    assert!(read.unwrap().success());
}
