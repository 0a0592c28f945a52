//! Limits and failures of accepting.

use super::*;
use crate::transport::http::serve::accept::pause;

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    #[derive(Default)]
    struct Crowd {
        now: usize,
        most: usize,
    }
    let crowd = Arc::new(Mutex::new(Crowd::default()));
    let counted = Arc::clone(&crowd);
    let router = Router::new().route(
        "/",
        get(|| async move {
            {
                let mut crowd = counted.lock().unwrap();
                crowd.now += 1;
                crowd.most = crowd.most.max(crowd.now);
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            counted.lock().unwrap().now -= 1;
            "served"
        }),
    );
    let options = ServeOptions {
        max_connections: 2,
        ..ServeOptions::default()
    };
    let server = start(router, options).await;
    let exchanges = (0..20).map(|_| server.exchange(LAST_REQUEST));
    for answer in futures_util::future::join_all(exchanges).await {
        assert!(answer.ends_with("served"), "{answer}");
    }
    assert_eq!(crowd.lock().unwrap().most, 2);
    server.stop().await;
}

#[tokio::test]
async fn a_stop_is_heard_while_every_place_is_taken() {
    let options = ServeOptions {
        max_connections: 1,
        ..ServeOptions::default()
    };
    let server = start(hello(), options).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    read_until(&mut client, "hello").await;
    let _waiting = server.connect().await;
    server.stop().await;
}

/// Fails with these errors, then gives out connections.
struct Failing {
    errors: Mutex<Vec<io::Error>>,
    listener: TcpListener,
}

impl Accept for Failing {
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let error = self.errors.lock().unwrap().pop();
        match error {
            Some(error) => Err(error),
            None => self.listener.accept().await,
        }
    }
}

async fn failing(errors: Vec<io::Error>) -> Failing {
    Failing {
        errors: Mutex::new(errors),
        listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
    }
}

#[tokio::test]
async fn a_failed_accept_is_tried_again() {
    const EMFILE: i32 = 24;
    let listener = failing(vec![
        io::Error::from_raw_os_error(EMFILE),
        io::ErrorKind::ConnectionAborted.into(),
        io::Error::from_raw_os_error(EMFILE),
    ])
    .await;
    let mut client = TcpStream::connect(listener.listener.local_addr().unwrap())
        .await
        .unwrap();
    client.write_all(LAST_REQUEST).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = serve_from(listener, Site(hello()), ServeOptions::default(), async {
        let _ = stopped.await;
    });
    let asking = async {
        let answer = rest(&mut client).await;
        stop.send(()).unwrap();
        answer
    };
    let (served, answer) = tokio::join!(serving, asking);
    served.unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn what_is_no_listener_is_given_up() {
    let listener = failing(vec![io::ErrorKind::InvalidInput.into()]).await;
    let served = serve_from(
        listener,
        Site(hello()),
        ServeOptions::default(),
        std::future::pending(),
    );
    assert_eq!(
        served.await.unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
}

#[test]
fn pauses_grow_to_a_second_and_no_longer() {
    let pauses: Vec<_> = [0, 1, 2, 6, 7, 40, u32::MAX].map(pause).into();
    let milliseconds: Vec<_> = pauses.iter().map(Duration::as_millis).collect();
    assert_eq!(milliseconds, [10, 20, 40, 640, 1000, 1000, 1000]);
}
