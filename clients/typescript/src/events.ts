import type { Schema } from "./schema.js"

type EventType = Schema<"EventType">

interface EventOf<Type extends EventType, Data> {
  id: string
  type: Type
  timestamp: string
  data: Data
}

/** What happened. `type` says to what, and tells the data: of a message, a batch, a notification, a verification, a sender or an alert. */
export type Event =
  | EventOf<Exclude<Extract<EventType, `message.${string}`>, "message.received">, Schema<"MessageEventData">>
  | EventOf<"message.received", Schema<"ReceivedEventData">>
  | EventOf<Extract<EventType, `batch.${string}`>, Schema<"BatchEventData">>
  | EventOf<Extract<EventType, `notification.${string}`>, Schema<"NotificationEventData">>
  | EventOf<Extract<EventType, `verification.${string}`>, Schema<"VerificationEventData">>
  | EventOf<Extract<EventType, `sender.${string}`>, Schema<"SenderEventData">>
  | EventOf<Extract<EventType, `alert.${string}`>, Schema<"AlertEventData">>

/** What a webhook gets: an event, or a test. */
export type PostedEvent = Event | { id: string; type: "webhook.test"; timestamp: string; data: Schema<"TestEventData"> }

/** Events, and the cursor to store once the work for them is done. */
export interface EventPage {
  items: Event[]
  next_cursor: string
}
