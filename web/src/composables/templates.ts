// The templates from which a message or a batch chooses.
import { api, call } from '@/api/client'
import { session } from '@/session'
import { useLoad } from './load'
import { loadAll } from './options'

/** The active templates that the viewer's company may use, the oldest first, which is used if none is named; null while they are not wanted. */
export const useTemplates = (isWanted: () => boolean) =>
  useLoad(async () => {
    if (!isWanted()) return null
    const company_no = session.value?.company_no ?? 'default'
    const all = await loadAll((query) => call(api.GET('/api/v1/admin/template', { params: { query: { ...query, status: 'active', company_no } } })))
    return all.reverse()
  }, isWanted)
