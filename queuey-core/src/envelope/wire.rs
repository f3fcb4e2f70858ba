//! The envelope as JSON. Written by hand: `#[serde(flatten)]` would parse payload and unknown fields into a tree.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;

use super::Envelope;

/// More nesting than this and serde_json reads no further.
const MAX_DEPTH: usize = 127;

/// Integers of more digits than this don't fit 64 bits.
const MAX_DIGITS: usize = 18;

pub(super) fn encode(envelope: &Envelope) -> Vec<u8> {
    let mut body = Vec::with_capacity(256 + envelope.payload.get().len());
    serde_json::to_writer(&mut body, envelope)
        .unwrap_or_else(|error| unreachable!("strings, numbers and JSON are always JSON: {error}"));
    body
}

/// Whether a payload has anything in it that its own type may not read back: a `null` that was a NaN, an integer
/// past 64 bits, nesting deeper than the reader goes, a key that was a number.
pub(super) fn may_not_read_back(json: &str) -> bool {
    let (mut depth, mut digits) = (0_usize, 0_usize);
    let (mut in_string, mut escaped, mut is_number) = (false, false, false);
    let mut bytes = json.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            if !in_string && is_number && bytes.peek() == Some(&b':') {
                return true;
            }
            is_number &= byte.is_ascii_digit() || byte == b'-';
            continue;
        }
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        match byte {
            b'"' => (in_string, is_number) = (true, true),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'n' => return true,
            _ => {}
        }
        if depth > MAX_DEPTH || digits > MAX_DIGITS {
            return true;
        }
    }
    false
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("job_id", &self.job_id)?;
        map.serialize_entry("job_type", &self.job_type)?;
        map.serialize_entry("queue", &self.queue)?;
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("enqueued_at_ms", &self.enqueued_at_ms)?;
        map.serialize_entry("deferrals", &self.deferrals)?;
        map.serialize_entry("priority", &self.priority)?;
        if let Some(id) = &self.correlation_id {
            map.serialize_entry("correlation_id", id)?;
        }
        if self.redeliveries != 0 {
            map.serialize_entry("redeliveries", &self.redeliveries)?;
        }
        if let Some(due) = self.due_at_ms {
            map.serialize_entry("due_at_ms", &due)?;
        }
        if !self.metadata.is_empty() {
            map.serialize_entry("metadata", &self.metadata)?;
        }
        map.serialize_entry("payload", &self.payload)?;
        for (key, value) in &self.unknown {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;
        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an envelope")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
                let mut fields = Fields::default();
                while let Some(key) = map.next_key::<Key>()? {
                    fields.read(key, &mut map)?;
                }
                fields.finish()
            }
        }
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

/// What has been read of an envelope so far.
#[derive(Default)]
struct Fields {
    job_id: Option<uuid::Uuid>,
    job_type: Option<String>,
    queue: Option<String>,
    attempt: Option<u32>,
    enqueued_at_ms: Option<u64>,
    deferrals: Option<u32>,
    priority: Option<u8>,
    correlation_id: Option<String>,
    redeliveries: Option<u32>,
    due_at_ms: Option<u64>,
    metadata: Option<Metadata>,
    payload: Option<Box<RawValue>>,
    unknown: Vec<(String, Box<RawValue>)>,
}

impl Fields {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error> {
        match key {
            Key::JobId => once(&mut self.job_id, "job_id", map),
            Key::JobType => once(&mut self.job_type, "job_type", map),
            Key::Queue => once(&mut self.queue, "queue", map),
            Key::Attempt => once(&mut self.attempt, "attempt", map),
            Key::EnqueuedAt => once(&mut self.enqueued_at_ms, "enqueued_at_ms", map),
            Key::Deferrals => once(&mut self.deferrals, "deferrals", map),
            Key::Priority => once(&mut self.priority, "priority", map),
            Key::CorrelationId => once(&mut self.correlation_id, "correlation_id", map),
            Key::Redeliveries => once(&mut self.redeliveries, "redeliveries", map),
            Key::DueAt => once(&mut self.due_at_ms, "due_at_ms", map),
            Key::Metadata => once(&mut self.metadata, "metadata", map),
            Key::Payload => once(&mut self.payload, "payload", map),
            Key::Unknown(key) => {
                self.unknown.push((key, map.next_value()?));
                Ok(())
            }
        }
    }

    fn finish<E: de::Error>(self) -> Result<Envelope, E> {
        let mut seen = HashSet::new();
        if let Some((twice, _)) = self.unknown.iter().find(|(key, _)| !seen.insert(key.as_str())) {
            return Err(E::custom(format_args!("duplicate field `{twice}`")));
        }
        let attempt = self.attempt.ok_or_else(|| E::missing_field("attempt"))?;
        if attempt == 0 {
            return Err(E::invalid_value(de::Unexpected::Unsigned(0), &"an attempt counted from 1"));
        }
        Ok(Envelope {
            job_id: self.job_id.ok_or_else(|| E::missing_field("job_id"))?,
            job_type: self.job_type.ok_or_else(|| E::missing_field("job_type"))?,
            queue: self.queue.ok_or_else(|| E::missing_field("queue"))?,
            attempt,
            enqueued_at_ms: self.enqueued_at_ms.ok_or_else(|| E::missing_field("enqueued_at_ms"))?,
            deferrals: self.deferrals.unwrap_or(0),
            priority: self.priority.unwrap_or(0),
            correlation_id: self.correlation_id,
            redeliveries: self.redeliveries.unwrap_or(0),
            due_at_ms: self.due_at_ms,
            metadata: self.metadata.unwrap_or_default().0,
            payload: self.payload.ok_or_else(|| E::missing_field("payload"))?,
            unknown: self.unknown,
        })
    }
}

fn once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    name: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(de::Error::duplicate_field(name));
    }
    *slot = Some(map.next_value()?);
    Ok(())
}

enum Key {
    JobId,
    JobType,
    Queue,
    Attempt,
    EnqueuedAt,
    Deferrals,
    Priority,
    CorrelationId,
    Redeliveries,
    DueAt,
    Metadata,
    Payload,
    Unknown(String),
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "job_id" => Key::JobId,
                    "job_type" => Key::JobType,
                    "queue" => Key::Queue,
                    "attempt" => Key::Attempt,
                    "enqueued_at_ms" => Key::EnqueuedAt,
                    "deferrals" => Key::Deferrals,
                    "priority" => Key::Priority,
                    "correlation_id" => Key::CorrelationId,
                    "redeliveries" => Key::Redeliveries,
                    "due_at_ms" => Key::DueAt,
                    "metadata" => Key::Metadata,
                    "payload" => Key::Payload,
                    other => Key::Unknown(other.to_owned()),
                })
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

/// A map of strings in which no key stands twice.
#[derive(Default)]
struct Metadata(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut read = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    if read.contains_key(&key) {
                        return Err(de::Error::custom(format_args!("duplicate metadata key `{key}`")));
                    }
                    read.insert(key, value);
                }
                Ok(Metadata(read))
            }
        }
        deserializer.deserialize_map(MetadataVisitor)
    }
}
