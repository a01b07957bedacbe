//! Lists in pages.

use std::collections::VecDeque;

use futures::Stream;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::request::{Request, path};

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries of the page.
    pub items: Vec<T>,
    /// The cursor of the next page. In lists of events, it is always set: use it again later.
    pub next_cursor: Option<String>,
    /// `true` if there is another page.
    pub has_more: bool,
}

/// A list of the server. It requests a page when its entries are needed.
#[must_use = "a list is requested when its entries are read"]
pub struct Pager<T> {
    client: Client,
    request: Result<Request, Error>,
    /// The field of a page that has the entries.
    field: &'static str,
    /// The parameter with the cursor, and the field of a page that has the next one.
    cursor: (&'static str, &'static str),
    next_cursor: Option<String>,
    is_over: bool,
    items: VecDeque<T>,
}

impl<T> std::fmt::Debug for Pager<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pager")
            .field("field", &self.field)
            .field("next_cursor", &self.next_cursor)
            .finish_non_exhaustive()
    }
}

impl<T> Pager<T> {
    fn new(client: Client, request: Result<Request, Error>, field: &'static str) -> Self {
        Self {
            client,
            request,
            field,
            cursor: ("cursor", "nextCursor"),
            next_cursor: None,
            is_over: false,
            items: VecDeque::new(),
        }
    }

    /// Sets the maximum number of entries in a page.
    pub fn page_size(self, size: u32) -> Self {
        self.query("limit", size)
    }

    /// Begins with the page of this cursor, to continue an earlier list.
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.next_cursor = Some(cursor.into());
        self
    }

    /// Adds a query parameter.
    pub fn query(mut self, name: &str, value: impl ToString) -> Self {
        if let Ok(request) = &mut self.request {
            request.query.push((name.to_owned(), value.to_string()));
        }
        self
    }

    pub(crate) fn pairs(self, pairs: Vec<(&'static str, String)>) -> Self {
        pairs.into_iter().fold(self, |pager, (name, value)| pager.query(name, value))
    }

    /// Reads pages of events of a job, whose cursor is a number.
    pub(crate) fn after(mut self, after: u64) -> Self {
        self.cursor = ("after", "nextAfter");
        self.next_cursor = Some(after.to_string());
        self
    }

    /// Returns the entries as the server sends them, with fields that this version does not know.
    pub fn raw(self) -> Pager<Value> {
        let Self { client, request, field, cursor, next_cursor, is_over, .. } = self;
        Pager { cursor, next_cursor, is_over, ..Pager::new(client, request, field) }
    }
}

impl<T: DeserializeOwned> Pager<T> {
    /// Requests the next page; `None` after the last one. For programs that store the cursor.
    ///
    /// # Errors
    /// The request fails. The same page is requested by the next call.
    pub async fn page(&mut self) -> Result<Option<Page<T>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let mut request = match &self.request {
            Ok(request) => request.clone(),
            Err(error) => return Err(Error::Invalid(error.to_string())),
        };
        if let Some(cursor) = &self.next_cursor {
            request.query.push((self.cursor.0.to_owned(), cursor.clone()));
        }
        let document: Value = self.client.send(&request).await?.json()?;
        let page = self.read(document)?;
        self.is_over = !page.has_more;
        self.next_cursor.clone_from(&page.next_cursor);
        Ok(Some(page))
    }

    fn read(&self, mut document: Value) -> Result<Page<T>, Error> {
        let invalid = |reason: String| {
            Error::InvalidResponse(format!("{} responded with an unexpected page ({reason})", self.client.url()))
        };
        let items = document.get_mut(self.field).map(Value::take).unwrap_or_default();
        let items = serde_json::from_value(items).map_err(|error| invalid(error.to_string()))?;
        let next_cursor = match &document[self.cursor.1] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let has_more = document["hasMore"].as_bool().unwrap_or(next_cursor.is_some());
        if has_more && next_cursor.is_none() {
            return Err(invalid("the cursor is missing".to_owned()));
        }
        Ok(Page { items, next_cursor, has_more })
    }

    /// Returns the next entry; `None` at the end of the list.
    ///
    /// # Errors
    /// A request fails. The same page is requested by the next call.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(item));
            }
            match self.page().await? {
                Some(page) => self.items = page.items.into(),
                None => return Ok(None),
            }
        }
    }

    /// Returns all entries.
    ///
    /// # Errors
    /// A request fails.
    pub async fn all(mut self) -> Result<Vec<T>, Error> {
        let mut all: Vec<T> = std::mem::take(&mut self.items).into();
        while let Some(page) = self.page().await? {
            all.extend(page.items);
        }
        Ok(all)
    }

    /// Returns the entries as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<T, Error>> + Send
    where
        T: Send,
    {
        futures::stream::try_unfold(self, |mut pager| async move {
            let found = pager.next().await;
            found.map(|item| item.map(|item| (item, pager)))
        })
    }
}

impl Client {
    /// Returns a list; `field` is the field of its pages that has the entries.
    pub(crate) fn list<T>(&self, segments: &[&str], field: &'static str) -> Pager<T> {
        Pager::new(self.clone(), path(segments).map(|path| Request::new(Method::GET, path)), field)
    }
}
