// The number of conversations with unread messages. Users without live figures ask for it.
import { computed, ref } from 'vue'
import { api, call } from '@/api/client'
import { useEvery } from '@/composables/every'
import { useLive } from '@/composables/live'
import { can } from '@/session'

const asked = ref(0)

/** Asks again, so that the number changes with what the viewer has just read. Viewers with live figures get them by themselves. */
export async function askUnread(): Promise<void> {
  if (can('getOverview')) return
  try {
    asked.value = (await call(api.GET('/api/v1/conversations', { params: { query: { unread: true, limit: 100 } } }))).items.length
  } catch {
    // The next question may get an answer. The page itself tells what is wrong.
  }
}

export function useUnread() {
  const { overview } = useLive()
  void askUnread()
  useEvery(15, askUnread, () => !can('getOverview'))
  return computed(() => (can('getOverview') ? (overview.value?.conversations.unread ?? 0) : asked.value))
}
