//! A review that the service writes on a code host.
