// Requests of which only the newest counts.
import { onScopeDispose } from 'vue'

/**
 * `request` asks once; it shows its answer only while `isNewest`. `run` asks at once and outdates the request before. `refresh` waits for the
 * request under way, so that an answer that takes longer than the time between refreshes is shown at all, and then asks again: the answer
 * under way may be from before the change that the refresh is to show.
 */
export function useNewest(request: (isNewest: () => boolean, quietly: boolean) => Promise<void>) {
  let asked = 0
  let isGone = false
  let running: Promise<void> | null = null
  let waiting: Promise<void> | null = null

  function start(quietly: boolean): Promise<void> {
    const mine = ++asked
    const one = request(() => mine === asked, quietly).finally(() => {
      if (running === one) running = null
    })
    running = one
    return one
  }

  async function startLater() {
    while (running) await running
    waiting = null
    if (!isGone) await start(true)
  }

  onScopeDispose(() => {
    isGone = true
    asked++
  })
  return {
    run: () => start(false),
    refresh: () => (running ? (waiting ??= startLater()) : start(true)),
  }
}
