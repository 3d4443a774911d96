import { Iphone } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'senders',
    path: 'senders',
    component: () => import('./SendersPage.vue'),
    title: 'senders.title',
    operations: ['listSenders'],
    nav: { section: 'delivery', order: 10, icon: Iphone },
  },
  {
    name: 'sender',
    path: 'senders/:sender_no',
    component: () => import('./SenderPage.vue'),
    title: 'senders.one',
    operations: ['getSender'],
  },
]
