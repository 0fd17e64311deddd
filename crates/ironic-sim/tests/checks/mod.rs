//! One set of checks for anything that calls itself an Ironic with servers to enroll. The simulator and the real one have
//! to pass the same; where they differ, the simulator is wrong.

mod life;
mod moves;
mod service;
mod trouble;
mod words;

use parking_lot::Mutex;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use reqwest::{Client, Method, header::HeaderMap};
use serde_json::{Value, json};

/// The version that calls are made in unless a check says otherwise.
pub const VERSION: &str = "1.110";
/// How long anything may take. A real Ironic on a busy machine takes its time.
const LIMIT: Duration = Duration::from_secs(240);

/// What is said of a node that another action holds.
pub const LOCKED: &str = "is locked by host";

/// How to reach a server's BMC, and its first network card.
#[derive(Debug, Clone)]
pub struct Access {
    pub address: String,
    pub system: String,
    pub username: String,
    pub password: String,
    pub mac: String,
}

/// Something done to a server by its number.
pub type Act<T> = Box<dyn Fn(usize) -> BoxFuture<'static, T> + Send + Sync>;

/// What is checked.
pub struct TestEnv {
    pub http: Client,
    /// Without `/v1`.
    pub url: String,
    /// What the API wants.
    pub user: (String, String),
    /// At least four.
    pub servers: Vec<Access>,
    /// A ramdisk as an ISO.
    pub ramdisk: String,
    /// An image and its SHA-256.
    pub image: (String, String),
    /// The ramdisk of a server never reports.
    pub silence: Act<()>,
    /// A server's BMC takes seconds for everything.
    pub slow: Act<()>,
    /// The user data of a server's last deployment.
    pub user_data: Act<Option<String>>,
    /// The steps of a service fail on a server.
    pub refuse: Act<()>,
    /// A server's BMC takes back the BIOS settings that Ironic has seen in force.
    pub revert: Act<()>,
    /// Ends silence, slowness, refusals and what is taken back.
    pub heal: Act<()>,
    /// Where it is not as it should be. Checks go on after that, so that one run tells all.
    pub wrong: Mutex<Vec<String>>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

/// All checks; those of different servers side by side.
pub async fn all(env: &TestEnv) {
    words::all(env).await;
    let ((), (), (), ()) = futures::join!(
        life::all(env, 0),
        moves::all(env, 1),
        trouble::all(env, 2),
        service::all(env, 3)
    );
    let left = env.get("/v1/nodes").await;
    assert_eq!(left["nodes"], json!([]), "every check cleans up");
    let wrong = env.wrong.lock();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

impl TestEnv {
    /// Makes a call in a version.
    pub async fn call_as(&self, version: &str, method: &str, path: &str, body: Value) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if !version.is_empty() {
            request = request.header("X-OpenStack-Ironic-API-Version", version);
        }
        if !body.is_null() {
            request = request.json(&body);
        }
        let (user, password) = &self.user;
        let response = request.basic_auth(user, Some(password)).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    pub async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.call_as(VERSION, method, path, body).await
    }

    /// A call at a moment at which nothing else holds the node: a real Ironic looks at the power now and then.
    async fn call_free(&self, method: &str, path: &str, body: &Value) -> Answer {
        let mut answer = self.call(method, path, body.clone()).await;
        for _ in 0..20 {
            if !(answer.status == 409 && answer.text().contains(LOCKED)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
            answer = self.call(method, path, body.clone()).await;
        }
        answer
    }

    /// A call that has to succeed with a status.
    pub async fn expect(&self, status: u16, method: &str, path: &str, body: Value) -> Value {
        let answer = self.call_free(method, path, &body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        answer.body
    }

    pub async fn get(&self, path: &str) -> Value {
        self.expect(200, "GET", path, Value::Null).await
    }

    /// A call that has to be refused, with words in its text.
    pub async fn refused(&self, status: u16, words: &str, method: &str, path: &str, body: Value) {
        let answer = if words == LOCKED {
            self.call(method, path, body.clone()).await
        } else {
            self.call_free(method, path, &body).await
        };
        self.is_refusal(&answer, status, words, &format!("{method} {path} {body}"));
    }

    /// Notes what is not as it should be.
    pub fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.lock().push(what());
        }
    }

    /// Notes a value that is not the expected one.
    pub fn same(&self, what: &str, found: &Value, expected: &Value) {
        self.check(found == expected, || format!("{what}: {found} instead of {expected}"));
    }

    /// Notes an answer that is not a refusal with this status and these words.
    pub fn is_refusal(&self, answer: &Answer, status: u16, words: &str, what: &str) {
        self.check(answer.status == status && answer.text().contains(words), || {
            format!(
                "{what}: {} {} instead of {status} with {words:?}",
                answer.status, answer.body
            )
        });
    }

    /// Enrolls a server; returns the node's uuid.
    pub async fn enroll(&self, server: usize, name: &str, password: Option<&str>) -> String {
        let node = self.node(server, name, password);
        let made = self.expect(201, "POST", "/v1/nodes", node).await;
        made["uuid"].as_str().unwrap().to_owned()
    }

    pub fn node(&self, server: usize, name: &str, password: Option<&str>) -> Value {
        let access = &self.servers[server];
        json!({
            "driver": "redfish", "name": name, "boot_interface": "redfish-virtual-media",
            "properties": {"capabilities": "boot_mode:uefi"},
            "driver_info": {
                "redfish_address": access.address, "redfish_system_id": access.system, "redfish_verify_ca": false,
                "redfish_username": access.username, "redfish_password": password.unwrap_or(&access.password),
                "deploy_iso": self.ramdisk,
            },
        })
    }

    /// A port for a server's first card.
    pub async fn add_port(&self, server: usize, node: &str) {
        let port = json!({"node_uuid": node, "address": self.servers[server].mac, "pxe_enabled": true});
        self.expect(201, "POST", "/v1/ports", port).await;
    }

    /// Asks for a move that is accepted.
    pub async fn go(&self, node: &str, verb: &str) {
        self.go_with(node, json!({"target": verb})).await;
    }

    pub async fn go_with(&self, node: &str, body: Value) {
        let path = format!("/v1/nodes/{node}/states/provision");
        self.expect(202, "PUT", &path, body).await;
    }

    /// A move that is refused.
    pub async fn no_go(&self, status: u16, words: &str, node: &str, verb: &str) {
        let path = format!("/v1/nodes/{node}/states/provision");
        self.refused(status, words, "PUT", &path, json!({"target": verb})).await;
    }

    /// Waits until something holds for a node, and returns it.
    pub async fn until(&self, node: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let record = self.get(&format!("/v1/nodes/{node}")).await;
            if holds(&record) {
                return record;
            }
            assert!(begin.elapsed() < LIMIT, "never {what}: {record}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a node rests in a state, and returns it.
    pub async fn rest(&self, node: &str, state: &str) -> Value {
        self.until(node, state, |record| {
            record["provision_state"] == state && record["reservation"].is_null()
        })
        .await
    }

    pub async fn patch(&self, node: &str, ops: Value) -> Value {
        self.expect(200, "PATCH", &format!("/v1/nodes/{node}"), ops).await
    }

    pub async fn no_patch(&self, status: u16, words: &str, node: &str, ops: Value) {
        self.refused(status, words, "PATCH", &format!("/v1/nodes/{node}"), ops)
            .await;
    }

    pub async fn delete(&self, node: &str) {
        self.expect(204, "DELETE", &format!("/v1/nodes/{node}"), Value::Null)
            .await;
        self.refused(
            404,
            "could not be found",
            "GET",
            &format!("/v1/nodes/{node}"),
            Value::Null,
        )
        .await;
    }

    /// Deletes a node in whatever state it is.
    pub async fn remove(&self, node: &str) {
        let (path, why) = (
            format!("/v1/nodes/{node}/maintenance"),
            json!({"reason": "on its way out"}),
        );
        self.expect(202, "PUT", &path, why).await;
        self.delete(node).await;
    }

    pub async fn no_delete(&self, words: &str, node: &str) {
        self.refused(409, words, "DELETE", &format!("/v1/nodes/{node}"), Value::Null)
            .await;
    }

    /// Changes the power and waits for it.
    pub async fn power(&self, node: &str, target: &str, reached: &str) {
        let path = format!("/v1/nodes/{node}/states/power");
        self.expect(202, "PUT", &path, json!({"target": target})).await;
        let record = self
            .until(node, "without a power change under way", |record| {
                record["target_power_state"].is_null() && record["reservation"].is_null()
            })
            .await;
        assert_eq!(record["power_state"], reached, "after {target}: {record}");
    }

    /// Inserts a disc into a server that rests in a state.
    pub async fn attach(&self, node: &str, state: &str) {
        let disc = json!({"device_type": "cdrom", "image_url": self.ramdisk});
        self.expect(204, "POST", &format!("/v1/nodes/{node}/vmedia"), disc)
            .await;
        self.inserted(node, state, true).await;
    }

    /// Waits until the drives of a server that rests in a state are empty or not.
    pub async fn inserted(&self, node: &str, state: &str, wanted: bool) {
        let begin = Instant::now();
        loop {
            let media = self.get(&format!("/v1/nodes/{node}/vmedia")).await;
            let mut drives = media.as_array().unwrap().iter();
            if drives.any(|drive| drive["inserted"] == true) == wanted {
                break;
            }
            assert!(begin.elapsed() < LIMIT, "never inserted = {wanted}: {media}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.rest(node, state).await;
    }

    /// Sets what to deploy.
    pub async fn set_image(&self, node: &str) {
        let info = json!({
            "image_source": self.image.0, "image_os_hash_algo": "sha256", "image_os_hash_value": self.image.1,
            "image_disk_format": "raw",
        });
        self.patch(node, json!([{"op": "add", "path": "/instance_info", "value": info}]))
            .await;
    }
}

impl Answer {
    /// The text of a refusal: JSON in a text in JSON.
    pub fn text(&self) -> String {
        let text = self.body["error_message"].as_str().unwrap_or_default();
        let fault: Value = serde_json::from_str(text).unwrap_or_default();
        fault["faultstring"].as_str().unwrap_or(text).to_owned()
    }
}
