//! The texts that the demo's people write.

use super::names::is_chinese;

const ENGLISH: [&str; 32] = [
    "Good morning! Did you see the news about the new line?",
    "I'm on my way, ten minutes.",
    "Can we move it to Thursday?",
    "That was a lovely evening, thank you.",
    "Who has the keys to the hall?",
    "I have two tickets left if anybody is interested.",
    "Sounds good to me.",
    "Let me check and come back to you.",
    "The photos are up. Have a look!",
    "I'll bring bread and cheese.",
    "Sorry, I only saw this now.",
    "Does seven still work for everyone?",
    "Perfect, see you there.",
    "I finished the first chapter and I like it so far.",
    "Has anyone tried the place on the corner?",
    "It's raining here, what about you?",
    "Let's ask Ruth, she knows.",
    "I had no idea!",
    "Please don't forget the form by Friday.",
    "That made my day.",
    "Two more people are coming along.",
    "I can take three in the car.",
    "The link does not open for me, could you send it again?",
    "Of course, no hurry at all.",
    "Shall we take the early train?",
    "I'm reading the notes from last week now.",
    "Everything is ready for tomorrow.",
    "Good question. I would wait a day.",
    "Happy birthday!",
    "We need one more player on Sunday.",
    "Thanks for the quick answer.",
    "I'll call you tonight.",
];
const CHINESE: [&str; 16] = [
    "早上好！今天天气真不错。",
    "我在路上，十分钟就到。",
    "可以改到周四吗？",
    "谢谢你，昨天晚上很开心。",
    "谁有会议室的钥匙？",
    "我这边没问题。",
    "稍等，我看一下再回复你。",
    "照片已经传上去了，大家看看。",
    "不好意思，刚看到消息。",
    "七点大家都可以吗？",
    "好的，到时候见。",
    "第一章看完了，很喜欢。",
    "周日还差一个人。",
    "辛苦了！",
    "生日快乐！",
    "明天的东西都准备好了。",
];
const ANSWERS: [&str; 12] = [
    "Good to hear from you!",
    "Yes, I think so too.",
    "Really? Tell me more.",
    "Let me think about it.",
    "Haha, exactly.",
    "I was about to ask you the same.",
    "Sure, why not?",
    "That works for me.",
    "Give me five minutes.",
    "I'd say yes.",
    "Interesting. And then?",
    "Talk to you later!",
];
const CHINESE_ANSWERS: [&str; 6] =
    ["哈哈，说得对。", "好的，没问题。", "真的吗？说说看。", "我想想再告诉你。", "可以啊！", "回头再聊！"];

/// Returns a text that a person writes unasked; `at` chooses.
pub(super) fn phrase(by: i64, at: usize) -> &'static str {
    if is_chinese(by) { CHINESE[at % CHINESE.len()] } else { ENGLISH[at % ENGLISH.len()] }
}

/// Returns a person's reply; `at` chooses.
pub(super) fn reply(by: i64, at: usize) -> &'static str {
    if is_chinese(by) { CHINESE_ANSWERS[at % CHINESE_ANSWERS.len()] } else { ANSWERS[at % ANSWERS.len()] }
}
