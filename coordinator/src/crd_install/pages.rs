//! Lists of metadata, page by page: all of them at once may be too much for the API server and for us.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

/// Objects in one page.
const PAGE: u32 = 500;

/// Hands over the metadata of every object.
pub(super) async fn each<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    mut take: impl FnMut(PartialObjectMeta<K>),
) -> Result<(), kube::Error> {
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list_metadata(&page).await?;
        list.items.into_iter().for_each(&mut take);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(()),
        }
    }
}
