//! How many shards, owners and mailbox places a map has: [`Builder`]. Starts the threads, and nothing else.

use std::error::Error;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::thread;

use cache_api::DefaultHashBuilder;

use crate::map::Map;
use crate::routing::{MAX_SHARDS, Routing};

/// The number of shards unless told otherwise.
const DEFAULT_SHARDS: usize = 256;
/// The number of places in each mailbox unless told otherwise.
const DEFAULT_MAILBOX: usize = 1024;

/// How the shards are given to owner threads.
#[derive(Clone, Copy, Debug)]
enum Owners {
    OnePerCore,
    Exactly(usize),
    ShardsEach(usize),
}

/// The settings of a [`Map`]: shards, owner threads, mailbox size, capacity, hasher.
///
/// # Examples
///
/// The study's arrangement, one owner per shard:
///
/// ```
/// use cache_actor::Builder;
///
/// let map = Builder::new().shards(16).shards_per_owner(1).build::<u32, u32>();
/// assert_eq!(map.owners(), 16);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder<S = DefaultHashBuilder> {
    shards: usize,
    owners: Owners,
    mailbox: usize,
    capacity: usize,
    hasher: S,
}

impl Builder {
    /// 256 shards, one owner thread per core, 1,024 places in each mailbox, a randomly seeded [`DefaultHashBuilder`].
    pub fn new() -> Self {
        Self {
            shards: DEFAULT_SHARDS,
            owners: Owners::OnePerCore,
            mailbox: DEFAULT_MAILBOX,
            capacity: 0,
            hasher: DefaultHashBuilder::new(),
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Builder<S> {
    /// The number of partitions: a power of two from 1 to 65,536.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// The number of owner threads: at least 1. More than there are shards means one for each.
    pub fn owners(mut self, owners: usize) -> Self {
        self.owners = Owners::Exactly(owners);
        self
    }

    /// The largest number of shards that one owner thread gets: at least 1. `1` is the study's arrangement.
    pub fn shards_per_owner(mut self, shards: usize) -> Self {
        self.owners = Owners::ShardsEach(shards);
        self
    }

    /// How many messages wait for one owner before its callers have to: at least 1. Allocated up front.
    pub fn mailbox(mut self, messages: usize) -> Self {
        self.mailbox = messages;
        self
    }

    /// How many entries to make room for, spread evenly over the shards. A hint: what the allocator refuses is
    /// ignored.
    pub fn capacity(mut self, entries: usize) -> Self {
        self.capacity = entries;
        self
    }

    /// The hasher builder; it is used on the calling threads only.
    pub fn hasher<T>(self, hasher: T) -> Builder<T> {
        let Self {
            shards,
            owners,
            mailbox,
            capacity,
            ..
        } = self;
        Builder {
            shards,
            owners,
            mailbox,
            capacity,
            hasher,
        }
    }

    /// Starts the owner threads. O(shards + owners * mailbox).
    ///
    /// # Panics
    ///
    /// Where [`try_build`](Builder::try_build) returns an error, with its text.
    #[must_use]
    pub fn build<K, V>(self) -> Map<K, V, S>
    where
        K: Hash + Eq + Send + 'static,
        V: Send + 'static,
    {
        self.try_build()
            .unwrap_or_else(|error| panic!("cache-actor: {error}"))
    }

    /// Starts the owner threads, as [`build`](Builder::build) does.
    ///
    /// # Errors
    ///
    /// Where a setting is out of range, or the operating system refuses a thread. Threads that were already running
    /// have ended by then.
    pub fn try_build<K, V>(self) -> Result<Map<K, V, S>, BuildError>
    where
        K: Hash + Eq + Send + 'static,
        V: Send + 'static,
    {
        let Self {
            shards,
            owners,
            mailbox,
            capacity,
            hasher,
        } = self;
        if !shards.is_power_of_two() || shards > MAX_SHARDS {
            return Err(BuildError(Kind::Shards(shards)));
        }
        let owners = match owners {
            Owners::Exactly(0) | Owners::ShardsEach(0) => return Err(BuildError(Kind::NoOwners)),
            Owners::Exactly(owners) => owners,
            Owners::ShardsEach(each) => shards.div_ceil(each),
            Owners::OnePerCore => thread::available_parallelism().map_or(1, usize::from),
        };
        if mailbox == 0 {
            return Err(BuildError(Kind::NoMailbox));
        }
        let routing = Routing::new(shards, owners.min(shards));
        Map::start(routing, mailbox, capacity.div_ceil(shards), hasher)
            .map_err(|error| BuildError(Kind::Thread(error)))
    }
}

/// Why a map could not be built.
#[derive(Debug)]
pub struct BuildError(Kind);

#[derive(Debug)]
enum Kind {
    Shards(usize),
    NoOwners,
    NoMailbox,
    Thread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Shards(shards) => {
                write!(
                    f,
                    "{shards} shards: choose a power of two from 1 to {MAX_SHARDS}"
                )
            }
            Kind::NoOwners => f.write_str(
                "no owner threads: choose at least 1 owner, or at least 1 shard per owner",
            ),
            Kind::NoMailbox => f.write_str("a mailbox of 0 messages: choose at least 1"),
            Kind::Thread(error) => {
                write!(
                    f,
                    "the operating system refuses an owner thread ({error}): choose fewer owners"
                )
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::Thread(error) => Some(error),
            _ => None,
        }
    }
}
