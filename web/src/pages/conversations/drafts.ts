// Replies that were written and not sent, by conversation. They are kept until the page is loaded anew.
import { reactive } from 'vue'

export const drafts = reactive(new Map<string, string>())
