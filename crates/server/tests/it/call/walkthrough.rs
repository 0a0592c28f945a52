//! One call, all the way through.

use interlock::{Context, Failure, NoArguments, Server, Tool, Workflow};
use interlock_testkit::connect;
use serde_json::json;

fn shop() -> Server {
    let order = Workflow::builder("shop")
        .state("cart", |s| {
            s.initial().tool("checkout", |t| t.success("due"))
        })
        .state("due", |s| s.tool("pay", |t| t.success("paid")))
        .state("paid", |s| s.terminal())
        .build()
        .unwrap();
    Server::builder("shop", "1.0.0")
        .tool(Tool::new("checkout", |_: NoArguments, _: Context| async {
            Ok::<_, Failure>("42 to pay")
        }))
        .tool(Tool::new("pay", |_: NoArguments, _: Context| async {
            "thank you"
        }))
        .workflow(order)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_call_moves_the_state_and_announces_the_new_list_before_its_result() {
    let (mut client, connection) = connect(&shop());
    let hello = client.initialize().await;
    assert_eq!(
        hello["result"]["capabilities"]["tools"]["listChanged"],
        true
    );
    assert_eq!(client.tools().await, ["checkout"]);

    let (_, refused) = client.call("pay", json!({})).await;
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["_meta"]["dev.interlock/refusal"]["code"], 1081);
    assert_eq!(
        refused["content"][0]["text"],
        "Tool 'pay' is not allowed in state 'cart'. Allowed now: checkout. To get there: checkout."
    );

    let (before, result) = client.call("checkout", json!({})).await;
    assert_eq!(before, ["notifications/tools/list_changed"]);
    assert_eq!(result["content"][0]["text"], "42 to pay");
    assert_eq!(result["_meta"]["dev.interlock/workflow"]["state"], "due");
    assert_eq!(
        result["_meta"]["dev.interlock/workflow"]["next"],
        json!(["pay"])
    );
    assert_eq!(client.tools().await, ["pay"]);

    client.call("pay", json!({})).await;
    assert_eq!(client.tools().await, ["checkout"]);

    client.hang_up();
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}
