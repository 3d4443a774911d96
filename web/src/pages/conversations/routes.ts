import { ChatLineRound } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'
import UnreadBadge from './UnreadBadge.vue'

export const pages: PageDefinition[] = [
  {
    name: 'conversations',
    path: 'conversations',
    component: () => import('./ConversationsPage.vue'),
    title: 'conversations.title',
    operations: ['listConversations', 'getConversation'],
    nav: { section: 'messages', order: 15, icon: ChatLineRound, badge: UnreadBadge },
  },
]
