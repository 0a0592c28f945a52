//! The examples do what they say.

#[allow(dead_code, reason = "`cargo run` calls its `main`")]
#[path = "../../examples/refund_desk.rs"]
mod refund_desk;

/// `cargo run -p interlock-engine --example refund_desk` prints what belongs in the file.
#[tokio::test]
async fn the_refund_desk_tells_its_story() {
    let story = refund_desk::story().await.unwrap();
    assert_eq!(story, include_str!("../../examples/refund_desk.out"));
}
