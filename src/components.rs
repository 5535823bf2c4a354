//! The users of the parts of this process, and their clients.

use kube::Client;
use orlop_apiserver::ApiService;
use orlop_apiserver::authentication::in_process;
use orlop_auth::UserInfo;
use orlop_client::client;
use orlop_client::component::{ClientBuilder, Component, NAMESPACE};

/// Clients of the API server in this process. Each component is authorized as its own user; none is an administrator.
pub(crate) struct LocalClients {
    service: ApiService,
}

impl LocalClients {
    pub(crate) fn new(service: ApiService) -> Self {
        LocalClients { service }
    }
}

impl ClientBuilder for LocalClients {
    fn client(&self, component: Component) -> Client {
        client::in_process(in_process(self.service.clone(), user_of(component)))
    }
}

fn user_of(component: Component) -> UserInfo {
    match component {
        Component::ControllerManager => UserInfo::controller_manager(),
        Component::Scheduler => UserInfo::scheduler(),
        Component::Account(name) => UserInfo::service_account(NAMESPACE, name),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orlop_auth::rbac::bootstrap::controller_accounts;
    use orlop_client::component::accounts;
    use orlop_controller::manager::CONTROLLERS;

    use super::*;

    #[test]
    fn no_component_is_an_administrator() {
        let all = CONTROLLERS.iter().map(|controller| controller.component);
        let users: Vec<UserInfo> = all.chain([Component::ControllerManager]).map(user_of).collect();
        for user in users.iter().chain([&UserInfo::node("n")]) {
            assert!(!user.groups.iter().any(|group| group == "system:masters"), "{user:?}");
        }
        let names: BTreeSet<&str> = users.iter().map(|user| user.username.as_str()).collect();
        assert_eq!(
            names.len(),
            CONTROLLERS.len() - 3,
            "each has its own, but the controllers of nodes share one, and those of certificates; that of tokens has the manager's"
        );
    }

    #[test]
    fn each_account_has_a_role() {
        let known: BTreeSet<&str> = controller_accounts().collect();
        let own = CONTROLLERS.iter().filter_map(|controller| match controller.component {
            Component::Account(name) => Some(name),
            Component::ControllerManager | Component::Scheduler => None,
        });
        let others = [accounts::ORLOP_FAILURE_REPORTER, accounts::ORLOP_EXPLAINER, accounts::ORLOP_SCHEDULER];
        for account in own.chain(others) {
            assert!(known.contains(account), "{account}");
        }
    }
}
