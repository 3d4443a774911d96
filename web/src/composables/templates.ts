// The templates from which a message or a batch chooses.
import { api, call } from '@/api/client'
import { session } from '@/session'
import { useLoad } from './load'
import { loadAll } from './options'

/** The active templates that the viewer's company may use, the oldest first: it is the one that is used if none is named. */
export const useTemplates = () =>
  useLoad(async () => {
    const company_no = session.value?.company_no ?? 'default'
    const all = await loadAll((query) => call(api.GET('/api/v1/admin/template', { params: { query: { ...query, status: 'active', company_no } } })))
    return all.reverse()
  })
