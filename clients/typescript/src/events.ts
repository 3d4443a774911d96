import type { Schema } from "./schema.js"

type MessageEventType = Exclude<Schema<"EventType">, "batch.finished">

/** What happened to a message or a batch. `type` says which. */
export type Event =
  | { id: string; type: MessageEventType; timestamp: string; data: Schema<"MessageEventData"> }
  | { id: string; type: "batch.finished"; timestamp: string; data: Schema<"BatchEventData"> }

/** What a webhook gets: an event, or a test. */
export type PostedEvent = Event | { id: string; type: "webhook.test"; timestamp: string; data: { webhook_id: number } }

/** Events, and the cursor to store once the work for them is done. */
export interface EventPage {
  items: Event[]
  next_cursor: string
}
