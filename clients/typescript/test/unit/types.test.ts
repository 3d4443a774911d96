import type { Event, Schema } from "lksms-client"

// The compiler checks these: no program runs.

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type DataIn<E, Type> = E extends { type: infer T; data: infer Data } ? ([Type] extends [T] ? Data : never) : never
type DataOf<Type extends Event["type"]> = DataIn<Event, Type>

const is = <_ extends true>() => {}

// A new type of event in the contract needs data here.
is<Same<Event["type"], Schema<"EventType">>>()
is<Same<DataOf<"message.sent" | "message.undelivered">, Schema<"MessageEventData">>>()
is<Same<DataOf<"message.received">, Schema<"ReceivedEventData">>>()
is<Same<DataOf<"batch.finished">, Schema<"BatchEventData">>>()
is<Same<DataOf<"notification.finished">, Schema<"NotificationEventData">>>()
is<Same<DataOf<"verification.approved" | "verification.failed">, Schema<"VerificationEventData">>>()
is<Same<DataOf<"sender.silent" | "sender.low_balance">, Schema<"SenderEventData">>>()
is<Same<DataOf<"alert.firing">, Schema<"AlertEventData">>>()
