// Repeats a question while a page waits for something.
import { onScopeDispose } from 'vue'

/** Calls `run` every `seconds` while `wanted` says so and the tab is visible; a call that is still running is not repeated. */
export function useEvery(seconds: number, run: () => Promise<unknown>, wanted: () => boolean): void {
  let busy = false
  const timer = setInterval(async () => {
    if (busy || document.hidden || !wanted()) return
    busy = true
    try {
      await run()
    } finally {
      busy = false
    }
  }, seconds * 1000)
  onScopeDispose(() => clearInterval(timer))
}
