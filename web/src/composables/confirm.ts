// Asks before something is destroyed.
import { shallowRef } from 'vue'

export interface Danger {
  /** The question: "Delete template X?" */
  title: string
  /** What will be lost or touched, and whether it can be undone. */
  text: string
  /** The number of things that the act touches, shown in large type. */
  count?: number
  /** The word for these things, after the number. */
  things?: string
  /** Whether the viewer types the number before the act is allowed; for acts on many. */
  typeCount?: boolean
  /** The verb on the button. */
  button: string
  /** The act. The dialog shows its progress, and its error. */
  run: () => Promise<unknown>
}

export const asked = shallowRef<{ danger: Danger; answer: (done: boolean) => void } | null>(null)

/** Asks, and runs the act when the viewer agrees. True: it was done. */
export function confirmDanger(danger: Danger): Promise<boolean> {
  asked.value?.answer(false)
  return new Promise((resolve) => {
    asked.value = { danger, answer: resolve }
  })
}
